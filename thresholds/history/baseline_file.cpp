// The format of baseline.json.
#include <optional>
#include <string>

#include "base/statistics.hpp"
#include "thresholds/history/baseline.hpp"
#include "thresholds/results/json_field.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

namespace fs = std::filesystem;

template <class Archive>
void members(Archive& archive, LaunchFacts& launch) {
  archive("started", launch.started)("hosts", launch.hosts).younger("gpus", launch.gpus);
}

template <class Archive>
void members(Archive& archive, LeftOut& value) {
  archive("key", value.key)("metric", value.metric)("launch", value.launch)("value", value.value)("centre",
                                                                                                  value.centre);
}

/// Reads or writes the part before the benchmarks.
template <class Archive>
void members(Archive& archive, Baseline& baseline) {
  archive.derived("schema", baseline_schema)("ranks", baseline.ranks)("hosts", baseline.hosts)("facts", baseline.facts);
  archive("launches", baseline.launches)("left_out", baseline.left_out);
}

/// One metric of one benchmark.
struct BaselineRow {
  std::string key, metric;
  bool headline = false;
  Series series;
};

template <class Archive>
void members(Archive& archive, BaselineRow& row) {
  archive("key", row.key)("metric", row.metric)("headline", row.headline);
  if (const auto units = row.series.units(false); !units.empty()) {
    archive.derived("median", median(units)).derived("robust_sigma", robust_sigma(units));
  }
  archive("launches", row.series.launches)("ranks", row.series.ranks);
}

namespace {

constexpr const char* file_name = "baseline.json";

void require_values(const Field& by_launch, const Baseline& baseline) {
  for (const auto& [launch, values] : by_launch.value().items()) {
    if (!baseline.launches.contains(launch)) by_launch.refuse("launch \"" + launch + "\" is not listed under launches");
    if (values.empty()) by_launch[launch.c_str()].refuse("no values");
  }
}

void read_benchmark(const Field& field, Baseline& baseline) {
  const auto row = read_as<BaselineRow>(field);
  require_values(field["launches"], baseline);
  require_values(field["ranks"], baseline);
  BaselineBenchmark& entry = baseline.benchmarks[row.key];
  if (row.series.launches.empty()) field["launches"].refuse("no launches");
  if (!entry.series.emplace(row.metric, row.series).second)
    field.refuse(row.key + " " + row.metric + " is listed twice");
  if (!row.headline) return;
  if (!entry.headline.empty()) field.refuse(row.key + " has two headlines");
  entry.headline = row.metric;
}

Baseline read_document(const Field& root) {
  const Field head = root["baseline"];
  const int schema = head["schema"].integer();
  if (schema != baseline_schema) {
    head["schema"].refuse("is " + std::to_string(schema) + ", this program reads " + std::to_string(baseline_schema) +
                          "; the file was not touched; use the release that wrote it");
  }
  auto baseline = read_as<Baseline>(head);
  for (const char* name : variables_of_place) baseline.facts.erase(name);  // older baselines stored them as facts
  for (const char* field : machine_fields) static_cast<void>(head["facts"][field]);  // the field must be present
  static_cast<void>(head["ranks"].positive_integer());
  static_cast<void>(head["hosts"].positive_integer());
  const Field rows = root["benchmarks"];
  if (rows.value().empty()) rows.refuse("the baseline has no benchmarks; create it again");
  rows.each([&](const Field& row) { read_benchmark(row, baseline); });
  for (const auto& [key, entry] : baseline.benchmarks) {
    if (entry.headline.empty()) rows.refuse(key + " has no headline metric");
  }
  return baseline;
}

// Returns a stored baseline; nullopt if the file is something else.
std::optional<Baseline> read_stored(const fs::path& file) {
  const auto document = read_json(file);
  if (!document.is_object() || !document.contains("baseline")) return std::nullopt;
  return read_document(Field(file, "", document));
}

}  // namespace

std::string baseline_json(const Baseline& baseline) {
  std::string text = "{\n\"baseline\": " + json_text(baseline, 2) + ",\n\"benchmarks\": [";
  const char* separator = "\n";
  for (const auto& [key, entry] : baseline.benchmarks) {
    for (const auto& [metric, series] : entry.series) {
      text += separator + json_text(BaselineRow{key, metric, metric == entry.headline, series}, -1);
      separator = ",\n";
    }
  }
  return text + "\n]\n}\n";
}

Baseline read_baseline(const std::vector<fs::path>& paths, bool allow_faults) {
  std::vector<Baseline> stored;
  std::vector<fs::path> results;
  for (const fs::path& path : paths) {
    const bool folder = is_folder(path);
    if (folder && !path_exists(path / file_name)) {
      results.push_back(path);
      continue;
    }
    const fs::path file = folder ? path / file_name : path;
    if (auto baseline = read_stored(file)) {
      stored.push_back(std::move(*baseline));
    } else if (folder) {
      throw InputError(file.string() + ": is not a baseline; make one with shakedown baseline create");
    } else {
      results.push_back(path);
    }
  }
  if (results.empty()) return merge(stored);
  if (!stored.empty()) throw InputError("--baseline: stored baselines and result files together; give one kind");
  const auto files = read_results(results);
  refuse_faults(files, allow_faults);
  refuse_virtual(files, "a baseline");
  return baseline_of(files);
}

void store_baseline(const fs::path& file, const Baseline& baseline) {
  std::error_code error;
  if (is_visible(file) && !read_stored(file)) {
    throw InputError(file.string() + ": is not a baseline and was not touched; name another place with --out");
  }
  fs::create_directories(file.parent_path(), error);
  if (error) throw CannotWrite(file.parent_path().string() + ": cannot be made: " + error.message());
  replace_file(file, baseline_json(baseline));
}

}  // namespace shakedown
