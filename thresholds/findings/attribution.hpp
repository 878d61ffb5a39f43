// An attribution refers to a finding of an earlier stage, and adds the ranks at fault and the resulting severity. The
// finding itself never changes: the verdict has a new one, made from both.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

struct Attribution {
  std::size_t finding = 0;  // index in the findings of the stage
  Status status = Status::fail;
  Severity severity = Severity::fail;
  std::optional<std::vector<Culprit>> offenders = std::nullopt;  // the complete list, worst first; nullopt: unchanged
  Part part = {};                                                // of these offenders
  std::optional<double> value = std::nullopt;                    // nullopt: unchanged
  std::optional<std::vector<int>> own = std::nullopt;            // Finding::own
  std::string reason = "";                                       // added to the detail; may be empty
};

/// Returns the findings, with a new one in place of each that has an attribution.
std::vector<Finding> attributed(std::vector<Finding>, const std::vector<Attribution>&);

}  // namespace shakedown
