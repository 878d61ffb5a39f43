#include "tests/mutation/change.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::mutation {
namespace {

using nlohmann::json;

/// Placeholder for a number beyond the range of double, which the JSON library cannot write.
constexpr std::string_view overflow = "\"@overflow@\"";

/// Members of Google Benchmark that are not measured values.
constexpr std::array<std::string_view, 13> plain{"name",
                                                 "run_name",
                                                 "run_type",
                                                 "repetitions",
                                                 "repetition_index",
                                                 "family_index",
                                                 "per_family_instance_index",
                                                 "iterations",
                                                 "real_time",
                                                 "cpu_time",
                                                 "time_unit",
                                                 "threads",
                                                 "errors_rows"};

bool is_figure(const std::string& name, const json& value) {
  return value.is_number() && std::find(plain.begin(), plain.end(), name) == plain.end();
}

std::size_t any_of(std::size_t count, std::mt19937_64& random) { return static_cast<std::size_t>(random() % count); }

bool ran(const json& row) { return !row.contains("error_occurred"); }

/// Returns the names of measured values of the run and of ranks, each once.
std::vector<std::string> figures_of(const json& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) {
    if (is_figure(name, value)) names.push_back(name);
  }
  if (row.contains("by_rank")) {
    for (const auto& [name, values] : row["by_rank"].items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

/// Replaces a random measured value in every place. Returns its name; nullopt if the row has none.
std::optional<std::string> falsify(json& row, const json& value, std::mt19937_64& random) {
  const auto names = figures_of(row);
  if (names.empty()) return std::nullopt;
  const std::string& name = names[any_of(names.size(), random)];
  const json before = row;
  if (row.contains(name)) row[name] = value;
  if (row.contains("by_rank") && row["by_rank"].contains(name)) {
    for (auto& own : row["by_rank"][name]) {
      if (!own.is_null()) own = value;
    }
  }
  return row == before ? std::nullopt : std::optional(name);
}

std::optional<std::string> without_rank(json& row, std::optional<std::size_t> rank) {
  bool changed = false;
  for (const char* columns : {"by_rank", "text_by_rank"}) {
    if (!row.contains(columns)) continue;
    for (auto& [name, values] : row[columns].items()) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i].is_null() || (rank && i != *rank)) continue;
        values[i] = nullptr;
        changed = true;
      }
    }
  }
  return changed ? std::optional(std::string()) : std::nullopt;
}

void fail(json& row, const std::string& message) {
  row["error_occurred"] = true;
  row["error_message"] = message;
}

/// True if a rank took part in the measurement of a row. Sensor values do not count: all ranks have them.
bool took_part(const json& row, std::size_t rank) {
  const std::string key = key_of(row["name"].get<std::string>());
  if (family_of(key) == "preflight" || !row.contains("by_rank")) return family_of(key) == "preflight";
  for (const auto& [name, values] : row["by_rank"].items()) {
    const Metric* const known = find_metric(Key(key), name);
    if ((name == "seconds" || (known != nullptr && known->of_slowest)) && !values[rank].is_null()) return true;
  }
  return false;
}

/// Returns a copy of the row as the repetition after the last one of its key.
json repeated(const std::vector<json>& rows, std::size_t at) {
  json row = rows[at];
  int last = 0;
  for (const json& other : rows) {
    last = std::max(last, other.value("repetition_index", 0));
  }
  row["repetition_index"] = last + 1;
  return row;
}

std::size_t ranks_of(const json& row) {
  for (const char* columns : {"by_rank", "text_by_rank"}) {
    if (row.contains(columns) && !row[columns].empty()) return row[columns].begin()->size();
  }
  return 0;
}

void take_values(json& row) {
  std::vector<std::string> names{"by_rank", "text_by_rank", "throttle", "errors", "label"};
  for (const auto& [name, value] : row.items()) {
    if (is_figure(name, value)) names.push_back(name);
  }
  for (const auto& name : names) row.erase(name);
}

/// Changes the values of a row that was measured.
std::optional<std::string> change_values(json& row, Kind kind, std::mt19937_64& random) {
  const std::size_t ranks = ranks_of(row);
  const std::array<json, 3> no_numbers{nullptr, "nan", "@overflow@"};
  switch (kind) {
    case Kind::without_values: return take_values(row), std::string();
    case Kind::without_one_rank: {
      const std::size_t rank = ranks == 0 ? 0 : any_of(ranks, random);
      return ranks == 0 || !took_part(row, rank) ? std::nullopt : without_rank(row, rank);
    }
    case Kind::without_any_rank: {
      if (random() % 2 == 0) return without_rank(row, std::nullopt);
      return row.erase("by_rank") + row.erase("text_by_rank") > 0 ? std::optional(std::string()) : std::nullopt;
    }
    case Kind::non_finite: return falsify(row, no_numbers[any_of(no_numbers.size(), random)], random);
    case Kind::zero: return falsify(row, 0, random);
    case Kind::huge: return falsify(row, 1e300, random);
    default: return std::nullopt;
  }
}

/// Changes `rows[at]`, removes it or adds a row; all `rows` belong to one benchmark. Returns the name of the falsified
/// value.
std::optional<std::string> change_rows(std::vector<json>& rows, std::size_t at, Kind kind, std::mt19937_64& random) {
  json& row = rows[at];
  switch (kind) {
    case Kind::error:
      fail(row, random() % 2 == 0 ? "wrong data: rank 0: 1 of 2 elements differ"
                                  : "cuda/gpu.cpp:12 in alloc: out of memory (cudaErrorMemoryAllocation, 2)");
      if (random() % 2 == 0) row["wrong_ranks"] = {0};
      return "";
    case Kind::removed: rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(at)); return "";
    case Kind::duplicated: {
      json copy = random() % 4 == 0 ? row : repeated(rows, at);
      rows.push_back(std::move(copy));
      return "";
    }
    default: break;
  }
  if (!ran(row)) return std::nullopt;
  if (kind == Kind::waived) return fail(row, "waived: a test says so"), std::string();
  if (kind == Kind::waived_again) {
    json copy = repeated(rows, at);
    fail(copy, "waived: a test says so");
    rows.push_back(std::move(copy));
    return "";
  }
  return change_values(row, kind, random);
}

std::string text_of(const json& row) {
  std::string text = row.dump();
  for (auto at = text.find(overflow); at != std::string::npos; at = text.find(overflow, at)) {
    text.replace(at, overflow.size(), "1e999");
  }
  return text;
}

/// Writes the columns that have few ranks as lists of all ranks.
void fill_in(json& document) {
  const std::size_t ranks = document["context"]["shakedown"]["ranks"].size();
  for (json& row : document["benchmarks"]) {
    for (const char* name : {"by_rank", "text_by_rank", "throttle", "errors"}) {
      if (!row.contains(name)) continue;
      for (auto& [column, values] : row[name].items()) {
        if (!values.is_object()) continue;
        json all(ranks, nullptr);
        for (auto& [rank, value] : values.items()) all.at(std::stoul(rank)) = value;
        values = std::move(all);
      }
    }
  }
}

}  // namespace

Document::Document(json document) {
  fill_in(document);
  rows = document["benchmarks"].get<std::vector<json>>();
  for (const json& row : rows) texts.push_back(row.dump());
  before = "{\"context\": " + document["context"].dump() + ", \"benchmarks\": [";
  after = "]}\n";
}

std::optional<Change> change(const Document& document, std::size_t at, Kind kind, std::mt19937_64& random) {
  const json& name = document.rows[at]["name"];
  std::vector<json> rows;  // of the benchmark
  std::size_t own = 0;
  std::string text;
  for (std::size_t row = 0; row < document.rows.size(); ++row) {
    if (document.rows[row]["name"] == name) {
      if (row == at) own = rows.size();
      rows.push_back(document.rows[row]);
    } else {
      text += document.texts[row] + ",";
    }
  }
  const auto metric = change_rows(rows, own, kind, random);
  if (!metric) return std::nullopt;
  for (const json& row : rows) text += text_of(row) + ",";
  if (!text.empty()) text.pop_back();
  return Change{document.before + text + document.after, *metric};
}

}  // namespace shakedown::mutation
