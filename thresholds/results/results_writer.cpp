// Writes a result file: Google Benchmark's document with the data of the ranks.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/json_field.hpp"
#include "thresholds/results/matrix.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

template <class Archive>
void members(Archive& archive, PairMatrix::Cell& cell) {
  archive("src", cell.src)("dst", cell.dst)("value", cell.value);
}

template <class Archive>
void members(Archive& archive, PairMatrix& matrix) {
  archive("key", matrix.key)("host", matrix.host)("metric", matrix.metric).derived("worst", matrix.worst());
  archive("src_by_dst", matrix.values);
}

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Writes a column as an object if fewer than half of its values are known: {"3": 396.2} instead of three nulls.
void thin_out(ordered_json& row) {
  for (const char* name : columns_by_rank) {
    if (!row.contains(name)) continue;
    for (auto& [metric, values] : row[name].items()) {
      const auto unknown = std::count(values.begin(), values.end(), nullptr);
      if (2 * static_cast<std::size_t>(unknown) <= values.size()) continue;
      ordered_json::object_t known;  // built as a list, because operator[] would search all ranks
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (!values[rank].is_null()) known.emplace_back(std::to_string(rank), values[rank]);
      }
      values = std::move(known);
    }
  }
}

// Replaces bytes that are not UTF-8, because they would make the document unreadable; Google Benchmark copies the
// program path and the host name unchanged. A round trip through a JSON string does this.
std::string valid_utf8(std::string_view text) {
  return document_of_text(text_of_document(json(text), -1)).get<std::string>();
}

ordered_json parse_google_benchmark(std::string_view text) {
  try {
    auto document = ordered_json::parse(valid_utf8(text));
    if (document.is_object() && document.contains("context") && document["context"].is_object() &&
        document.contains("benchmarks") && document["benchmarks"].is_array()) {
      return document;
    }
  } catch (const json::exception& e) {
    throw InputError(std::string("Google Benchmark's output is not strict JSON (a counter that is not finite?): ") +
                     e.what());
  }
  throw InputError("Google Benchmark's output has no context or no benchmarks");
}

/// Numbers the repetitions. A row that was measured again occurs several times, each time as if it were the only row.
void number_repetitions(ordered_json& rows) {
  std::map<std::string, int> count, number;
  const auto is_first_of_one = [](const ordered_json& row) {
    return row.value("run_type", "") == "iteration" && row.value("repetitions", 1) == 1 &&
           row.value("repetition_index", 0) == 0;
  };
  for (const auto& row : rows) count[row.value("name", "")] += is_first_of_one(row) ? 1 : 0;
  for (auto& row : rows) {
    const auto name = row.value("name", "");
    if (!is_first_of_one(row) || count[name] < 2) continue;
    row["repetitions"] = count[name];
    row["repetition_index"] = number[name]++;
  }
}

/// Adds the data of a key and repetition to its iteration row.
void add_rank_data(ordered_json& row, const std::map<std::string, std::vector<RankData>>& all) {
  if (row.value("run_type", "") != "iteration") return;
  const auto found = all.find(key_of(row.value("name", "")));
  const auto repetition = row.value("repetition_index", std::size_t{0});
  if (found == all.end() || repetition >= found->second.size()) return;
  const RankData& data = found->second[repetition];
  auto columns = Writer::written(data);
  thin_out(columns);
  row.update(columns);
  for (const auto& [metric, values] : data.by_rank) {
    if (is_telemetry(metric) && !row.contains(metric)) row[metric] = nullptr;
  }
}

}  // namespace

std::string write_results(std::string_view google_benchmark_json, const Context& context,
                          const std::map<std::string, std::vector<RankData>>& data) {
  ordered_json document = parse_google_benchmark(google_benchmark_json);
  document["context"]["shakedown"] = Writer::written(context);
  // Writes each row as one line. With an indent, a row of 10,000 ranks would have 10,000 lines.
  std::string text = "{\n\"context\": " + text_of_document(document["context"], 2) + ",\n\"benchmarks\": [";
  const char* separator = "\n";
  number_repetitions(document["benchmarks"]);
  for (ordered_json& row : document["benchmarks"]) {
    add_rank_data(row, data);
    text += separator + text_of_document(row, -1);
    separator = ",\n";
  }
  text += "\n]";
  separator = ",\n\"matrices\": [\n";
  const auto matrices = pair_matrices(context, data);
  for (const PairMatrix& matrix : matrices) {
    text += separator + json_text(matrix, -1);
    separator = ",\n";
  }
  return text + (matrices.empty() ? "\n}\n" : "\n]\n}\n");
}

}  // namespace shakedown
