// An attribution belongs to a finding of an earlier stage. An attribution adds the ranks at fault, and the severity
// that results. The finding itself is never changed: the verdict gets a new finding that is made of both.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

struct Attribution {
  std::size_t finding = 0;  // index in the findings of that stage
  Status status = Status::fail;
  Severity severity = Severity::fail;
  std::optional<std::vector<Culprit>> offenders = std::nullopt;  // complete list, worst first; nullopt: unchanged
  Part part = {};                                                // part of these offenders
  std::optional<double> value = std::nullopt;                    // nullopt: unchanged
  std::optional<std::vector<int>> own = std::nullopt;            // see Finding::own
  std::string reason = "";                                       // added to the detail; may be empty
};

/// Returns the findings. Each finding that has an attribution is replaced by a new one.
std::vector<Finding> attributed(std::vector<Finding>, const std::vector<Attribution>&);

}  // namespace shakedown
