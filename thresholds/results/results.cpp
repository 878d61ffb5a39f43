// Reads and validates result files of schema 2. This file is also the only code that knows the name suffixes of Google
// Benchmark.
#include "thresholds/results/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/shown_path.hpp"
#include "base/utc.hpp"
#include "thresholds/catalogue/wrong_sm.hpp"
#include "thresholds/results/json_field.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array<std::pair<Lack, std::string_view>, 2> waiver_prefixes{
    {{Lack::machine, "waived: "}, {Lack::software, "waived for software: "}}};

// Members of a row that are not counters (google/benchmark json_reporter.cc, 1.7.1 to 1.9). All other numbers of a row
// are metrics.
constexpr std::array<std::string_view, 25> members_without_metric{
    "name",         "run_name",         "run_type",       "family_index",   "per_family_instance_index",
    "repetitions",  "repetition_index", "threads",        "iterations",     "real_time",
    "cpu_time",     "time_unit",        "label",          "error_occurred", "error_message",
    "skipped",      "skip_message",     "aggregate_name", "aggregate_unit", "by_rank",
    "text_by_rank", "throttle",         "errors",         "errors_rows",    "wrong_ranks"};

constexpr std::array<std::string_view, 9> name_suffixes{"manual_time",      "real_time",   "process_time",
                                                        "repeats:",         "iterations:", "min_time:",
                                                        "min_warmup_time:", "threads:",    "warmup_time:"};

// A compressed column of fewer ranks needs no less memory, because each block of memory has a head.
constexpr int min_compressed_ranks = 16;

bool is_suffix_segment(std::string_view segment) {
  return std::any_of(name_suffixes.begin(), name_suffixes.end(), [&](std::string_view suffix) {
    return suffix.back() == ':' ? segment.substr(0, suffix.size()) == suffix : segment == suffix;
  });
}

double real_seconds_of(const Field& row) {
  const std::string unit = row["time_unit"].text();
  const double value = row["real_time"].number();
  if (unit == "ns") return value * 1e-9;
  if (unit == "us") return value * 1e-6;
  if (unit == "ms") return value * 1e-3;
  if (unit == "s") return value;
  row["time_unit"].refuse("is \"" + unit + "\", expected ns, us, ms or s");
}

void require_one_per_rank(const Field& array, int world_size) {
  const json& values = array.value();
  if (!values.is_array()) array.refuse("expected an array");
  if (values.size() != static_cast<std::size_t>(world_size)) {
    array.refuse("has " + std::to_string(values.size()) + " values for " + std::to_string(world_size) + " ranks");
  }
}

/// Reads a column as an object by rank, which may be written if fewer than half of the values are known
/// (thresholds/results/results_writer.cpp).
void fill_in(json& row, const Field& field, int world_size) {
  for (const char* name : columns_by_rank) {
    const auto columns = row.is_object() ? row.find(name) : row.end();
    if (columns == row.end() || !columns->is_object()) continue;
    for (auto& [metric, values] : columns->get_ref<json::object_t&>()) {
      if (!values.is_object()) continue;
      json all(static_cast<std::size_t>(world_size), nullptr);
      for (auto& [word, value] : values.items()) {
        std::size_t rank = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rank);
        // Only one spelling of a rank is valid, so that no rank can occur twice.
        if (error != std::errc() || rank >= all.size() || std::to_string(rank) != word) {
          field[name][metric.c_str()].refuse("\"" + word + "\" is not a rank of " + std::to_string(world_size));
        }
        all[rank] = std::move(value);
      }
      values = std::move(all);
    }
  }
}

void read_rank_data(const Field& row, RankData& data, int world_size) {
  for (const char* name : columns_by_rank) {
    const auto member = row.find(name);
    if (!member) continue;
    member->each_member([&](const std::string&, const Field& column) { require_one_per_rank(column, world_size); });
  }
  Reader::read(row, data);
  for (const auto& [reason, parts] : data.throttle) {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (!parts[rank] || (*parts[rank] >= 0 && *parts[rank] <= 1)) continue;
      row["throttle"][reason.c_str()].refuse(
          fmt::format("rank {} has {}, expected a part of the time, from 0 to 1", rank, *parts[rank]));
    }
  }
  if (data.errors_rows < 1) row["errors_rows"].refuse("expected at least 1");
  if (world_size < min_compressed_ranks) return;
  for (auto& [metric, values] : data.by_rank) values.compress();
  for (auto& [reason, parts] : data.throttle) parts.compress();
}

/// Only a failed row may have ranks with wrong data.
void require_wrong_ranks(const Field& list, const Row& row, int world_size) {
  if (!row.error) list.refuse("is in a row without an error");
  std::set<int> seen;
  for (const int rank : row.wrong_ranks) {
    if (rank >= world_size) list.refuse("names rank " + std::to_string(rank) + " of " + std::to_string(world_size));
    if (!seen.insert(rank).second) list.refuse("names rank " + std::to_string(rank) + " twice");
  }
}

// Classifies a row as an error, a waiver, or neither. Since 1.8, a benchmark may also be "skipped", which means that it
// measured nothing. A message without its flag is a contradiction, and counts as an error.
void read_outcome(const Field& field, Row& row) {
  const auto flag = [&](const char* name) { return field.value().contains(name) && field[name].boolean(); };
  const bool skipped = flag("skipped") && !flag("error_occurred");
  const auto message = field.find(skipped ? "skip_message" : "error_message");
  std::string text = message ? message->text() : "";
  if (!skipped && !flag("error_occurred") && text.empty()) return;
  if (text.empty()) text = skipped ? "skipped without a message" : "error without a message";
  for (const auto& [lack, prefix] : waiver_prefixes) {
    if (!text.starts_with(prefix)) continue;
    row.waived = text.substr(prefix.size());
    row.lack = lack;
    return;
  }
  row.error = skipped ? "skipped: " + text : text;
}

std::optional<double> optional_number(const Field& parent, const char* name) {
  const auto member = parent.find(name);
  return member ? std::optional(member->number()) : std::nullopt;
}

Row read_row(const Field& field, int world_size) {
  Row row;
  row.key = Key(key_of(field["name"].text()));
  if (const auto index = field.find("repetition_index")) row.repetition = index->integer();
  if (const auto declared = field.find("repetitions")) row.repetitions = declared->integer();
  read_outcome(field, row);
  if (const auto wrong = field.find("wrong_ranks")) {
    Reader::read(*wrong, row.wrong_ranks);
    require_wrong_ranks(*wrong, row, world_size);
  }
  read_rank_data(field, row, world_size);
  if (row.error || row.waived) {
    // Figures of an error row are zeros of Google Benchmark, but the errors and slowdowns of a GPU are real, and so is
    // the SM with wrong data.
    std::erase_if(row.by_rank, [](const auto& entry) { return entry.first != wrong_sm_metric; });
    row.text_by_rank.clear();
    return row;
  }
  row.real_time = real_seconds_of(field);
  row.iterations = optional_number(field, "iterations").value_or(0);
  field.each_member([&](const std::string& name, const Field& value) {
    if (value.value().is_null() ||
        std::find(members_without_metric.begin(), members_without_metric.end(), name) != members_without_metric.end())
      return;
    row.metrics.emplace_hint(row.metrics.end(), name, value.number());
  });
  return row;
}

/// Reads the rows of a document, while the document is parsed or afterwards.
class RowsReader {
 public:
  explicit RowsReader(const fs::path& file, int world_size) : file_(file), world_size_(world_size) {}

  /// Reads the rows that were added since the last call.
  void read(json& rows) {
    const Field list(file_, "benchmarks", rows);
    for (; next_ < rows.size(); ++next_) {
      read_row_of(rows[next_], list.element(next_));
      rows[next_] = nullptr;  // frees the memory of the row
    }
  }
  std::vector<Row> take(const Field& list) {
    if (!list.value().is_array()) list.refuse("expected an array");
    if (rows_.empty()) {
      list.refuse(next_ == 0 ? "zero benchmarks; did the filter match anything?"
                             : "only aggregates; run without --benchmark_report_aggregates_only");
    }
    return std::move(rows_);
  }

 private:
  void read_row_of(json& item, const Field& field) {
    const std::string type = field["run_type"].text();
    if (type == "iteration") {
      fill_in(item, field, world_size_);
      Row row = read_row(field, world_size_);
      if (!seen_.emplace(row.key, row.repetition).second) {
        field.refuse(row.key.text() + " appears twice with repetition_index " + std::to_string(row.repetition));
      }
      rows_.push_back(std::move(row));
    } else if (type != "aggregate") {
      field["run_type"].refuse("is \"" + type + "\", expected iteration or aggregate");
    } else {
      Row aggregate;
      read_outcome(field, aggregate);
      if (aggregate.error) field.refuse("an aggregate with an error: " + *aggregate.error);
    }
  }

  const fs::path& file_;
  const int world_size_;
  std::size_t next_ = 0;
  std::vector<Row> rows_;
  std::set<std::pair<std::string, int>> seen_;
};

// Sorts the ranks, each of which must occur once.
void put_in_order(std::vector<RankFacts>& ranks, const Field& list, int world_size) {
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  if (ranks.size() != static_cast<std::size_t>(world_size)) {
    list.refuse("lists " + std::to_string(ranks.size()) + " of " + std::to_string(world_size) + " ranks");
  }
  for (int i = 0; i < world_size; ++i) {
    const int rank = ranks[static_cast<std::size_t>(i)].rank;
    if (rank < i) list.refuse("lists rank " + std::to_string(rank) + " twice");
    if (rank > i) list.refuse("does not list rank " + std::to_string(i));
  }
}

/// Checks that the facts of hosts agree with those of the ranks, because other code finds ranks by their index on a
/// host.
void require_hosts_of(const std::vector<RankFacts>& ranks, const Field& count, const Field& list) {
  std::map<std::string, int> sizes;
  for (const RankFacts& rank : ranks) ++sizes[rank.host];
  if (count.integer() != static_cast<int>(sizes.size())) {
    count.refuse("is " + std::to_string(count.integer()) + ", the ranks are on " + std::to_string(sizes.size()));
  }
  for (const RankFacts& rank : ranks) {
    if (rank.local_rank >= sizes[rank.host]) {
      list.refuse("rank " + std::to_string(rank.rank) + " has local_rank " + std::to_string(rank.local_rank) +
                  " on a host of " + std::to_string(sizes[rank.host]));
    }
  }
}

/// Rejects an unknown rank, a rank as its own peer, and a duplicate link.
void require_links_of(const std::vector<NcclLink>& links, const Field& list, int world_size) {
  std::set<NcclLink> seen;
  std::size_t i = 0;
  list.each([&](const Field& field) {
    const NcclLink& link = links[i++];
    for (const char* end : {"src", "dst"}) {
      if (field[end].integer() >= world_size) {
        field[end].refuse("is rank " + std::to_string(field[end].integer()) + " of " + std::to_string(world_size));
      }
    }
    if (link.src == link.dst) field.refuse("connects rank " + std::to_string(link.src) + " with itself");
    if (link.via.empty()) field["via"].refuse("is empty");
    if (!seen.insert(link).second) field.refuse("is listed twice");
  });
}

Context read_context(const Field& shakedown) {
  const int schema = shakedown["schema"].integer();
  if (schema != results_schema) {
    shakedown["schema"].refuse("is " + std::to_string(schema) + ", this program reads " +
                               std::to_string(results_schema) + "; use the release that wrote the file");
  }
  if (!named<Backend>(shakedown["backend"].text())) shakedown["backend"].refuse("expected host or cuda");
  if (!named<Tier>(shakedown["tier"].text())) shakedown["tier"].refuse("expected quick, full or gate");
  auto context = read_as<Context>(shakedown);
  // Files of version 0.1 have no time.
  if (!context.started.empty() && !seconds_of(context.started)) {
    shakedown["started"].refuse("is \"" + context.started + "\", expected a time, as in 2026-11-22T12:00:00Z");
  }
  static_cast<void>(shakedown["world"]["size"].positive_integer());
  static_cast<void>(shakedown["world"]["hosts"].positive_integer());
  if (!context.nccl.links.empty()) {
    require_links_of(context.nccl.links, shakedown["nccl"]["links"], context.world_size);
  }
  put_in_order(context.ranks, shakedown["ranks"], context.world_size);
  require_hosts_of(context.ranks, shakedown["world"]["hosts"], shakedown["ranks"]);
  return context;
}

}  // namespace

std::string key_of(std::string_view name) {
  for (auto slash = name.rfind('/'); slash != std::string_view::npos; slash = name.rfind('/')) {
    if (!is_suffix_segment(name.substr(slash + 1))) break;
    name = name.substr(0, slash);
  }
  return std::string(name);
}

Throttle RankData::throttle_of(int rank) const {
  Throttle known;
  for (const auto& [reason, parts] : throttle) {
    if (const auto& part = parts.at(static_cast<std::size_t>(rank)); part && *part > 0) known.emplace(reason, *part);
  }
  return known;
}

ErrorCounts RankData::errors_of(int rank) const {
  ErrorCounts known;
  for (const auto& [counter, counts] : errors) {
    if (const auto& count = counts.at(static_cast<std::size_t>(rank)); count && *count > 0)
      known.emplace(counter, *count);
  }
  return known;
}

std::string waiver_text(std::string_view reason, Lack lack) {
  return std::string(waiver_prefixes[static_cast<std::size_t>(lack)].second) + std::string(reason);
}

bool is_waiver(std::string_view text) {
  return std::any_of(waiver_prefixes.begin(), waiver_prefixes.end(),
                     [&](const auto& entry) { return text.starts_with(entry.second); });
}

namespace {

/// Reads the parts of a result file that have been parsed. Errors: those of read_results().
class ResultsReader {
 public:
  explicit ResultsReader(const fs::path& file) : file_(file) {}

  /// Reads the context, unless that was done before, and the rows that are new.
  void read(json& document) {
    if (!rows_) {
      const Field root(file_, "", document);
      root.require_object();
      if (!root.find("context")) {
        root.refuse(root.find("verdict") ? "is a verdict, not results; show it with shakedown report --verdict=FILE"
                                         : "is not a result file: \"context\" is missing; name files of a run");
      }
      const Field google_context = root["context"];
      if (!google_context.find("shakedown")) {
        google_context.refuse("has no \"shakedown\": not written by one of this suite's benchmarks");
      }
      context_ = read_context(google_context["shakedown"]);
      document["context"] = nullptr;  // frees its memory
      if (!root.find("benchmarks")) root.refuse("zero benchmarks: \"benchmarks\" is missing");
      rows_.emplace(file_, context_.world_size);
    }
    if (auto& rows = document["benchmarks"]; rows.is_array()) rows_->read(rows);
  }
  Results take(json& document) {
    read(document);
    return {file_, std::move(context_), rows_->take(Field(file_, "", document)["benchmarks"])};
  }

 private:
  const fs::path& file_;
  Context context_;
  std::optional<RowsReader> rows_;
};

}  // namespace

Results read_results(const fs::path& path) {
  const fs::path file = shown(path);
  ResultsReader reader(file);
  // Google Benchmark writes the context first. If a file has it later, the context is read after the whole file is
  // parsed. Other lists, such as the matrices, are for users and are computed from the rows.
  HashedJson json_file = read_json(path, [&](json& so_far, const std::string& list) {
    if (list != "benchmarks") {
      so_far[list].back() = nullptr;
    } else if (so_far.contains("context")) {
      reader.read(so_far);
    }
  });
  Results results = reader.take(json_file.document);
  results.sha256 = std::move(json_file.sha256);
  return results;
}

}  // namespace shakedown
