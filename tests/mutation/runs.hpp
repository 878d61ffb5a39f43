// The runs to mutate: every stored run, and simulated runs of eight GPUs and of four hosts.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/mutation/change.hpp"
#include "thresholds/history/baseline.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::mutation {

struct Run {
  std::string name;
  std::vector<Results> files;
  std::vector<Document> documents;  // of the same files
  std::optional<Baseline> other;    // another launch on the same machine, for comparison
  std::vector<Results> smaller;     // runs with fewer ranks, for scaling; empty if there are none
};

/// Returns all runs. Writes simulated runs to `scratch`.
std::vector<Run> all_runs(const std::filesystem::path& root, const std::filesystem::path& scratch);

}  // namespace shakedown::mutation
