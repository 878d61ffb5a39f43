// The expected ranks, hosts and backend, with the source of each number. Pure except for reading a roster.
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

/// Parses lines "host", "host 8", "host slots=8" or "node[1-4] 8"; # starts a comment. Errors: InputError "file:line:1:
/// what; what to do".
std::vector<RosterEntry> read_roster(const std::filesystem::path& file);

/// Returns the expectation from options, the roster and the runs, in this order.
Expectation expectation(const std::vector<Results>&, const JudgeOptions&);

}  // namespace shakedown
