// Finds the members whose value differs from that of the majority. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// A member and its value; nullopt if the value is unknown.
struct Holder {
  std::string who;
  std::optional<std::string> value;
};

struct OddOnesOut {
  std::vector<std::size_t>
      /// Indices of the members that differ from the majority. Without a majority, the indices of all members outside
      /// the first group.
      who;
  std::string text;  // "570.86 on node7, 580.159 on 15 others"; empty if all values are equal
};

/// Returns the members that differ. Unknown values are ignored.
OddOnesOut odd_ones_out(const std::vector<Holder>&);

}  // namespace shakedown
