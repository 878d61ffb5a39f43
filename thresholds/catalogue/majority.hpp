// Finds the members that differ from the majority: the value that most have is the reference. Pure.
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
      who;           // indices of those that differ from most; without a majority, of all but the first group
  std::string text;  // "570.86 on node7, 580.159 on 15 others"; empty if all are the same
};

/// Unknown values take no part.
OddOnesOut odd_ones_out(const std::vector<Holder>&);

}  // namespace shakedown
