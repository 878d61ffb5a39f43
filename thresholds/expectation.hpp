// What should have reported: who says how many ranks and hosts there are, and on what they measure. Pure but for
// reading a roster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/judge.hpp"

namespace shakedown {

struct Expectation {
  std::optional<int> ranks, hosts;
  std::optional<std::string> backend;
  std::string ranks_said_by, hosts_said_by, backend_said_by;
};

/// Of options, the roster and what the runs were told, in this order.
Expectation expectation(const std::vector<Results>&, const JudgeOptions&);

}  // namespace shakedown
