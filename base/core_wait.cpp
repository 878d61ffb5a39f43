#include "base/core_wait.hpp"

#include <fstream>

namespace shakedown {

std::optional<double> seconds_waited_for_core() {
  std::ifstream in("/proc/thread-self/schedstat");
  double worked = 0, waited = 0;
  return in >> worked >> waited ? std::optional(waited * 1e-9) : std::nullopt;
}

}  // namespace shakedown
