// The range of a figure on machines of one kind, from their stored runs (ci/baselines).
#pragma once

namespace shakedown {

/// The lowest and the highest value of the figure in all stored launches, and the number of different GPUs.
struct Seen {
  double low = 0, high = 0;
  int gpus = 0;
  bool operator==(const Seen&) const = default;
};

}  // namespace shakedown
