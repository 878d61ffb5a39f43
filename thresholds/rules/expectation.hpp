// The expected ranks, hosts and backend, and where each number comes from. The functions are pure, except for reading a
// roster.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/judge_options.hpp"

namespace shakedown {

struct Expectation {
  std::optional<int> ranks, hosts;
  std::optional<Backend> backend;
  std::string ranks_said_by, hosts_said_by, backend_said_by;
};

/// Parses a roster. The lines of a roster are "host", "host 8", "host slots=8" or "node[1-4] 8"; # starts a comment.
/// Errors: InputError "file:line:1: what is wrong; how to fix it".
std::vector<RosterEntry> read_roster(const std::filesystem::path& file);

/// Returns the expectation. Options have priority, then the roster, then what the runs recorded.
Expectation expectation(const std::vector<Results>&, const JudgeOptions&);

}  // namespace shakedown
