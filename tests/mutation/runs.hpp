// The runs that are mutated: every stored one, and made-up ones of eight GPUs and of four hosts.
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
  std::optional<Baseline> other;    // another launch of the same machine, to be compared with
  std::vector<Results> smaller;     // with fewer ranks, for scaling; empty: there is none
};

/// `scratch`: where made-up runs are written.
std::vector<Run> all_runs(const std::filesystem::path& root, const std::filesystem::path& scratch);

}  // namespace shakedown::mutation
