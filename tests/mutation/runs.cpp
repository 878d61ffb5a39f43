#include "tests/mutation/runs.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown::mutation {
namespace {

namespace fs = std::filesystem;

/// Returns the folders below ci/baselines that contain result files, sorted by name.
std::vector<fs::path> stored(const fs::path& root) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::recursive_directory_iterator(root / "ci/baselines")) {
    if (entry.is_directory() && fs::exists(entry.path() / "preflight.json")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

fs::path simulated(const fs::path& root, const fs::path& folder, int hosts, std::uint64_t launch) {
  rehearsal::Order order;
  order.noise = rehearsal::read_noise(root / "thresholds/rehearsal/noise/calm.yaml");
  order.shape.hosts = hosts;
  order.launch = launch;
  rehearsal::write(rehearsal::Fleet(order).results(), folder);
  return folder;
}

Run run_of(std::string name, const fs::path& folder) {
  Run run;
  run.name = std::move(name);
  run.files = read_results(std::vector{folder});
  for (const Results& file : run.files) {
    run.documents.emplace_back(nlohmann::json::parse(read_file(file.file)));
  }
  return run;
}

}  // namespace

std::vector<Run> all_runs(const fs::path& root, const fs::path& scratch) {
  std::vector<Run> runs;
  const auto folders = stored(root);
  const auto one_rank = read_results(std::vector{root / "ci/baselines/h200-sxm/1ranks/1"});
  for (const fs::path& folder : folders) {
    runs.push_back(run_of(fs::relative(folder, root / "ci/baselines").string(), folder));
    if (runs.back().files.front().context.world_size > 1) runs.back().smaller = one_rank;
  }
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (std::size_t other = 0; other < runs.size() && !runs[run].other; ++other) {
      if (other == run || folders[other].parent_path() != folders[run].parent_path()) continue;
      runs[run].other = baseline_of(runs[other].files);
    }
  }
  const auto four = read_results(std::vector{root / "tests/data/h200-sxm-4ranks-full/1"});
  struct Made {
    const char* name;
    int hosts;
  };
  for (const Made& made : {Made{"8 GPUs", 1}, Made{"4 hosts", 4}}) {
    runs.push_back(run_of(made.name, simulated(root, scratch / made.name, made.hosts, 1)));
    runs.back().other =
        baseline_of(read_results(std::vector{simulated(root, scratch / made.name / "other", made.hosts, 2)}));
    runs.back().smaller = four;
  }
  return runs;
}

}  // namespace shakedown::mutation
