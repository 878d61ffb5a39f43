// How good is the judge? Plants faults in generated clusters and counts what it finds, what it names and whom it
// accuses wrongly. tests/thresholds/simulate.hpp states the noise. Prints a table in Markdown.
//
//   build/tests/simulate_clusters [--seeds=200] [--first-seed=1000000] [--gpus=8,64,1024,10000] [--only=WORDS]
//                                 [--profile=thresholds/h200-sxm.yaml]
//
// The seeds used while tuning were below 100,000.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "tests/thresholds/scenarios.hpp"

int main(int argc, char** argv) {
  using namespace shakedown::simulation;
  int seeds = 200;
  std::uint64_t first = 1000000;
  std::vector<int> sizes{8, 64, 1024, 10000};
  std::string only;
  std::vector<shakedown::Profile> profiles;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = word.substr(std::min(word.find('=') + 1, word.size()));
    if (word.rfind("--seeds=", 0) == 0) {
      seeds = std::atoi(value.c_str());
    } else if (word.rfind("--first-seed=", 0) == 0) {
      first = std::strtoull(value.c_str(), nullptr, 10);
    } else if (word.rfind("--gpus=", 0) == 0) {
      sizes.clear();
      std::istringstream list(value);
      for (std::string size; std::getline(list, size, ',');) sizes.push_back(std::atoi(size.c_str()));
    } else if (word.rfind("--only=", 0) == 0) {
      only = value;
    } else if (word.rfind("--profile=", 0) == 0) {
      profiles = shakedown::load_profiles(value);
    } else {
      std::fprintf(stderr, "simulate_clusters: unknown flag %s\n", word.c_str());
      return 2;
    }
  }
  std::printf(
      "| planted | GPUs | seeds | found %% | rightly named %% | runs with a false alarm %% "
      "|\n|---|---|---|---|---|---|\n");
  for (const Scenario& scenario : profiles.empty() ? scenarios() : scenarios_with_profile()) {
    if (!only.empty() && scenario.name.find(only) == std::string::npos) continue;
    for (const int gpus : sizes) {
      if (gpus <= 8 && scenario.needs_hosts) continue;
      const Tally tally = run(scenario, gpus, seeds, first, profiles);
      std::printf("| %s | %d | %d | %.1f | %s | %.1f |\n", scenario.name.c_str(), gpus, seeds,
                  tally.percent(tally.detected),
                  scenario.faults.empty() ? "-" : percent_text(tally.percent(tally.named)).c_str(),
                  tally.percent(tally.false_alarms));
      std::fflush(stdout);
    }
  }
}
