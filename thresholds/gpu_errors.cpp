// Decides which errors and slowdowns of a GPU fail it, whatever it reached. Tested by tests/gpu_errors_test.cpp.
#include "thresholds/gpu_errors.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "base/text.hpp"
#include "thresholds/machine.hpp"

namespace shakedown {
namespace {

// "XID 79", "ECC uncorrected": how often, and the row in which it was counted first.
struct Counted {
  long count = 0;
  std::string first;
};

// Of the rows of a family in which the GPU was watched.
struct Watched {
  std::size_t rows = 0;
  double slowed = 0;
};

struct Record {
  const RankFacts* facts = nullptr;
  std::map<std::string, Counted> errors;
  std::map<std::string, Watched> families;
  std::set<std::string> reasons;
  std::string slowed_first;  // row
};

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const auto end = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + separator.size();
  }
  return parts;
}

// The number behind the last `word`, which is cut off with it: "ECC uncorrected +2", "XID 48, 2 times".
long take_number(std::string& text, const char* word, long otherwise) {
  const auto at = text.rfind(word);
  if (at == std::string::npos) return otherwise;
  const long number = std::strtol(text.c_str() + at + std::string(word).size(), nullptr, 10);
  if (number <= 0) return otherwise;
  text.resize(at);
  return number;
}

// XIDs that a program causes by what it does on a healthy GPU (NVIDIA's catalogue of XIDs: graphics engine exception,
// memory page fault, reset channel, preemptive removal), and errors that were corrected or repeated and cost only time.
// Whatever else was counted fails, known or not.
bool is_warning(const std::string& error) {
  constexpr std::array<std::string_view, 5> known{"XID 13", "XID 31", "XID 43", "XID 45", "ECC corrected"};
  return std::find(known.begin(), known.end(), error) != known.end() || error.ends_with(" replays") ||
         error.ends_with(" recoveries") || error.ends_with(" CRC errors");
}

// "ECC uncorrected +2; XID 48, 2 times in 7 rows"
void add_errors(const std::string& key, std::string text, Record& record) {
  take_number(text, " in ", 0);
  for (std::string& error : split(text, "; ")) {
    const long times = take_number(error, ", ", 1), grown = take_number(error, " +", times);
    Counted& counted = record.errors[error];
    counted.count += grown;
    if (counted.first.empty()) counted.first = key;
  }
}

// NVML: hw_slowdown, hw_thermal and hw_power_brake are the hardware's own protection from heat and from its supply,
// sw_thermal is the driver's. The power cap is what a loaded GPU works at.
void add_slowdown(const Row& row, const std::string& text, Record& record) {
  Watched& watched = record.families[family_of(row.key)];
  ++watched.rows;
  double most = 0;
  for (const std::string& part : split(text, ", ")) {
    const std::string reason = part.substr(0, part.find(' '));
    if (!reason.starts_with("hw_") && !reason.starts_with("sw_thermal")) continue;
    record.reasons.insert(reason);
    most = std::max(most, std::strtod(part.c_str() + reason.size(), nullptr) / 100);
    if (record.slowed_first.empty()) record.slowed_first = row.key;
  }
  watched.slowed += most;
}

const std::optional<std::string>* text_of(const Row& row, const char* name, std::size_t rank) {
  const auto found = row.text_by_rank.find(name);
  return found == row.text_by_rank.end() || rank >= found->second.size() ? nullptr : &found->second[rank];
}

bool was_watched(const Row& row, std::size_t rank) {
  const auto found = row.by_rank.find("throttled");
  return found != row.by_rank.end() && rank < found->second.size() && found->second[rank];
}

std::vector<Record> records_of(const std::vector<Results>& files, const std::optional<std::string>& family) {
  std::vector<Record> records;
  for (const Results& file : files) {
    records.resize(std::max(records.size(), file.context.ranks.size()));
    for (const RankFacts& facts : file.context.ranks) {
      const auto rank = static_cast<std::size_t>(facts.rank);
      Record& record = records.at(rank);
      if (record.facts == nullptr) record.facts = &facts;
      // Counters are read about once a second, and what they say then stands in all rows since: rows that follow each
      // other with the same words are one reading.
      std::optional<std::string> last;
      for (const Row& row : file.rows) {
        if (family && family_of(row.key) != *family) continue;
        if (const auto* errors = text_of(row, "errors", rank); errors != nullptr && *errors != last) {
          last = *errors;
          if (last) add_errors(row.key, *last, record);
        }
        const auto* throttle = text_of(row, "throttle", rank);
        const bool told = throttle != nullptr && *throttle;
        if (told || was_watched(row, rank)) add_slowdown(row, told ? **throttle : "", record);
      }
    }
  }
  return records;
}

Finding finding_of(const Record& record, const std::string& what, bool fails) {
  Finding f;
  f.key = "machine/" + what + "/rank:" + std::to_string(record.facts->rank);
  f.status = Status::fail;
  f.severity = fails ? Severity::fail : Severity::warn;
  f.worst = culprit(*record.facts);
  f.offenders = {*f.worst};
  f.offender_count = 1;
  f.source = "what the driver counts and reports while it is measured";
  f.next = "ssh " + record.facts->host + " nvidia-smi -q -i " +
           record.facts->uuid.value_or(std::to_string(record.facts->local_rank)) +
           (what == "errors" ? " -d ECC,ROW_REMAPPER" : " -d PERFORMANCE,TEMPERATURE,POWER");
  return f;
}

// One finding for what fails, and one for what does not.
void judge_errors(const Record& record, std::vector<Finding>& findings) {
  for (const bool fails : {true, false}) {
    std::vector<std::string> said;
    for (const auto& [error, counted] : record.errors) {
      if (is_warning(error) == fails) continue;
      said.push_back(error + " (" + (counted.count > 1 ? std::to_string(counted.count) + " times, first in " : "in ") +
                     counted.first + ")");
    }
    if (said.empty()) continue;
    findings.push_back(finding_of(record, "errors", fails));
    findings.back().detail = "while it was measured: " + joined(said);
  }
}

void judge_slowdown(const Record& record, std::vector<Finding>& findings) {
  if (record.reasons.empty()) return;
  double most = 0;
  std::string where;
  for (const auto& [family, watched] : record.families) {
    const double share = watched.slowed / static_cast<double>(watched.rows);
    if (share <= most) continue;
    most = share;
    where = family;
  }
  Finding f = finding_of(record, "slowdown", most >= slowed_down);
  f.value = 100 * most;
  f.limit = 100 * slowed_down;
  f.limit_name = "max";
  f.unit = "%";
  f.detail = "slowed down (" + joined(record.reasons) + ") for " + percent_text(most) + " of the time of " + where +
             ", first in " + record.slowed_first;
  findings.push_back(std::move(f));
}

}  // namespace

std::vector<Finding> judge_gpu_errors(const std::vector<Results>& files, const std::optional<std::string>& family) {
  std::vector<Finding> findings;
  for (const Record& record : records_of(files, family)) {
    if (record.facts == nullptr) continue;
    judge_errors(record, findings);
    judge_slowdown(record, findings);
  }
  return findings;
}

}  // namespace shakedown
