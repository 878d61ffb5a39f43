// Writes simulated results to files: the Google Benchmark document of each family, completed by the usual results
// writer.
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown::rehearsal {

namespace {

nlohmann::ordered_json google_row(const Row& row, std::size_t index) {
  const bool once = row.key.family() == "preflight" || row.key.family() == "pairs";
  const std::string name = row.key.text() + (once ? "/iterations:1/manual_time" : "/manual_time");
  nlohmann::ordered_json json{{"name", name},
                              {"family_index", index},
                              {"per_family_instance_index", 0},
                              {"run_name", name},
                              {"run_type", "iteration"},
                              {"repetitions", 1},
                              {"repetition_index", 0},
                              {"threads", 1}};
  if (row.waived) {
    json["error_occurred"] = true;
    json["error_message"] = waiver_text(*row.waived, row.lack);
  }
  if (row.error) {
    json["error_occurred"] = true;
    json["error_message"] = *row.error;
  }
  json["iterations"] = static_cast<std::int64_t>(row.iterations);
  json["real_time"] = row.real_time * 1e6;
  json["cpu_time"] = row.real_time * 1e6;
  json["time_unit"] = "us";
  for (const auto& [metric, value] : row.metrics) json[metric] = value;
  return json;
}

}  // namespace

void write(const std::vector<Results>& all, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const Results& results : all) {
    nlohmann::ordered_json document;
    document["context"] = {{"date", results.context.started},
                           {"host_name", results.context.ranks.front().host},
                           {"executable", "rehearsal"},
                           {"num_cpus", 96},
                           {"library_build_type", "release"}};
    document["benchmarks"] = nlohmann::ordered_json::array();
    std::map<std::string, std::vector<RankData>> data;
    for (const Row& row : results.rows) {
      document["benchmarks"].push_back(google_row(row, document["benchmarks"].size()));
      data[row.key].push_back(row);
    }
    replace_file((folder / results.file).string(), write_results(document.dump(), results.context, data));
  }
}

}  // namespace shakedown::rehearsal
