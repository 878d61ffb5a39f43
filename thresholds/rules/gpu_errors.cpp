// Decides which errors and slowdowns fail a GPU, however fast it is.
#include "thresholds/rules/gpu_errors.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/gpu_health.hpp"
#include "base/known_events.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

// A count, and the first row in which it occurred.
struct Counted {
  std::uint64_t count = 0;
  std::string first;
};

// A GPU fails if it has this number of corrected errors. A row of memory with several errors is replaced by a spare one
// (NVIDIA GPU memory error management), so thousands of errors mean that nothing replaces it. A public report has
// thousands in a second (NVIDIA/NVSentinel issue 1748).
constexpr std::uint64_t corrected_storm = 1000;

// Timed seconds of a family on a GPU with telemetry, and the part of them in which its clock was lowered.
struct Watched {
  double seconds = 0, slowed = 0;
};

struct Record {
  const RankFacts* facts = nullptr;
  std::map<std::string, Counted> errors;
  std::map<std::string, Watched> families;
  std::set<std::string> reasons;
  std::string slowed_first;  // name of the row
};

void add_errors(const std::string& key, const ErrorCounts& errors, Record& record) {
  for (const auto& [error, count] : errors) {
    Counted& counted = record.errors[error];
    counted.count += count;
    if (counted.first.empty()) counted.first = key;
  }
}

void add_slowdown(const Row& row, const Throttle& throttle, Record& record) {
  Watched& watched = record.families[row.key.family()];
  const double seconds = std::max(row.iterations, 1.0) * row.real_time;
  watched.seconds += seconds;
  double most = 0;
  for (const auto& [reason, part] : throttle) {
    if (!protects_gpu(reason)) continue;
    record.reasons.insert(reason);
    most = std::max(most, part);
    if (record.slowed_first.empty()) record.slowed_first = row.key;
  }
  watched.slowed += most * seconds;
}

bool was_watched(const Row& row, std::size_t rank) {
  const auto found = row.by_rank.find("throttled");
  return found != row.by_rank.end() && rank < found->second.size() && found->second[rank];
}

std::vector<Record> records_of(const std::vector<Results>& files, const FamilySet& families) {
  std::vector<Record> records;
  for (const Results& file : files) {
    records.resize(std::max(records.size(), file.context.ranks.size()));
    for (const RankFacts& facts : file.context.ranks) {
      const auto rank = static_cast<std::size_t>(facts.rank);
      Record& record = records.at(rank);
      if (record.facts == nullptr) record.facts = &facts;
      // Counters are read about once a second, and all rows since the last reading get its counts. Therefore successive
      // rows with equal counts, up to the stated number of rows, belong to one reading.
      ErrorCounts last;
      int rows_of_last = 0;
      for (const Row& row : file.rows) {
        if (!families.contains(row.key.family())) continue;
        const bool ran = !row.error && !row.waived;
        if (!ran && row.errors.empty() && row.throttle.empty()) continue;
        auto errors = row.errors_of(facts.rank);
        if (errors == last && rows_of_last < row.errors_rows) {
          ++rows_of_last;
        } else {
          add_errors(row.key, errors, record);
          last = std::move(errors);
          rows_of_last = 1;
        }
        const auto throttle = row.throttle_of(facts.rank);
        if (!throttle.empty() || was_watched(row, rank)) add_slowdown(row, throttle, record);
      }
    }
  }
  return records;
}

Finding finding_of(const Record& record, Code code, bool fails) {
  Finding f;
  classify(f, code);
  f.key = machine_key(code).set("rank", record.facts->rank);
  f.part = gpu_part(*record.facts);
  f.status = Status::fail;
  f.severity = fails ? Severity::fail : Severity::warn;
  f.worst = culprit(*record.facts);
  f.offenders = {*f.worst};
  f.offender_count = 1;
  f.source = "counters and reports of the driver during the run";
  f.next = on_host(record.facts->host,
                   "nvidia-smi -q -i " + gpu_in_command(*record.facts) +
                       (code == Code::errors ? " -d ECC,ROW_REMAPPER" : " -d PERFORMANCE,TEMPERATURE,POWER"));
  return f;
}

// Returns the finding about errors that fail, or, if `fails` is false, about the other errors. nullopt if there are
// none.
std::optional<Finding> judge_errors(const Record& record, bool fails) {
  std::vector<std::string> said, advice;
  for (const auto& [error, counted] : record.errors) {
    const bool is_storm = error == "ecc_corrected" && counted.count >= corrected_storm;
    if ((is_fault(error) || is_storm) != fails) continue;
    said.push_back(words_of_error(error) + " (" +
                   (counted.count > 1 ? std::to_string(counted.count) + " times, first in " : "in ") + counted.first +
                   ")");
    if (const std::string words = advice_on(error); !words.empty()) {
      advice.push_back(words_of_error(error) + ": " + words);
    }
  }
  if (said.empty()) return std::nullopt;
  Finding f = finding_of(record, Code::errors, fails);
  f.detail = "during the run: " + joined(said);
  if (!advice.empty()) f.detail += "; " + joined(advice, "; ");
  return f;
}

std::optional<Finding> judge_slowdown(const Record& record) {
  if (record.reasons.empty()) return std::nullopt;
  double most = 0;
  std::string where;
  for (const auto& [family, watched] : record.families) {
    const double share = watched.seconds > 0 ? watched.slowed / watched.seconds : 0;
    if (share <= most) continue;
    most = share;
    where = family;
  }
  Finding f = finding_of(record, Code::slowdown, most >= min_slowdown);
  f.value = 100 * most;
  f.limit = {LimitKind::max, 100 * min_slowdown};
  f.unit = "%";
  f.detail = "slowed down (" + joined(record.reasons) + ") for " + percent_text(most) + " of the time of " + where +
             ", first in " + record.slowed_first;
  return f;
}

}  // namespace

std::vector<Finding> judge_gpu_errors(const std::vector<Results>& files, const FamilySet& families) {
  std::vector<Finding> findings;
  for (const Record& record : records_of(files, families)) {
    if (record.facts == nullptr) continue;
    for (auto& finding : {judge_errors(record, true), judge_errors(record, false), judge_slowdown(record)}) {
      if (finding) findings.push_back(*finding);
    }
  }
  return findings;
}

}  // namespace shakedown
