// The command line of the programs that judge: acceptance_test and shakedown.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/regression.hpp"
#include "thresholds/verdict.hpp"

namespace shakedown {

struct Arguments {
  std::vector<std::filesystem::path> results, baseline;
  std::filesystem::path thresholds;
  std::optional<std::filesystem::path> verdict;  // where verdict.json goes
  std::optional<std::filesystem::path> nodes;    // folder for good_nodes, bad_nodes and nodes.json
  std::vector<std::filesystem::path> scaling;    // results with other numbers of ranks
  std::optional<std::string> explain;
  double tolerance = default_tolerance;
  JudgeOptions judge;
  bool color = false, help = false, version = false;
};

/// `thresholds` is the folder to use when neither the flag nor SHAKEDOWN_THRESHOLDS names one. The roster is read here.
/// Errors: InputError for an unknown or malformed flag, or a roster that cannot be read.
Arguments parse_arguments(const std::vector<std::string>& words, const std::filesystem::path& thresholds);

/// The flags above, one per line, for --help.
std::string arguments_help();

/// Loads, judges, and holds against the baseline if there is one.
Verdict judge(const Arguments&);

/// The text for --explain.
std::string explanation(const Arguments&);

}  // namespace shakedown
