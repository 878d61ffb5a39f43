// How much a test tries: a little with each change, all of it in the nightly tests, which set SHAKEDOWN_NIGHTLY.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace shakedown::testing_support {

inline bool is_nightly() { return std::getenv("SHAKEDOWN_NIGHTLY") != nullptr; }

/// `all` in the nightly tests, else at most 5.
inline int seeds(int all) { return is_nightly() ? all : std::min(all, 5); }

}  // namespace shakedown::testing_support
