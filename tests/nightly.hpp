// The number of seeds of a test: a few after each change, all in the nightly tests, which set SHAKEDOWN_NIGHTLY.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace shakedown::testing_support {

inline bool is_nightly() { return std::getenv("SHAKEDOWN_NIGHTLY") != nullptr; }

/// Returns `all` in the nightly tests, else at most 5.
inline int seeds(int all) { return is_nightly() ? all : std::min(all, 5); }

}  // namespace shakedown::testing_support
