// An attribution refers to a finding of an earlier stage, and says which ranks the finding is about and how it counts.
// The finding itself stays as it is: the verdict has a new one, made of both.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

struct Attribution {
  std::size_t finding = 0;  // index among those that the stage was given
  Status status = Status::fail;
  Severity severity = Severity::fail;
  std::optional<std::vector<Culprit>> offenders = std::nullopt;  // all, the worst first; nullopt: the same ones
  Part part = {};                                                // of these offenders
  std::optional<double> value = std::nullopt;                    // nullopt: the same one
  std::optional<std::vector<int>> own = std::nullopt;            // Finding::own
  std::string reason = "";                                       // empty: nothing to add to its detail
};

/// The findings, with a new one in place of each that an attribution is about.
std::vector<Finding> attributed(std::vector<Finding>, const std::vector<Attribution>&);

}  // namespace shakedown
