// Finds the members that differ from the majority value. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// A member and its value; nullopt if unknown.
struct Holder {
  std::string who;
  std::optional<std::string> value;
};

struct OddOnesOut {
  std::vector<std::size_t>
      who;           // indices of members that differ; without a majority, of all except the first group
  std::string text;  // "570.86 on node7, 580.159 on 15 others"; empty if all are the same
};

/// Returns the differing members. Ignores unknown values.
OddOnesOut odd_ones_out(const std::vector<Holder>&);

}  // namespace shakedown
