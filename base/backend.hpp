// The device that a rank measures with.
#pragma once

#include "base/names.hpp"

namespace shakedown {

enum class Backend { host, cuda };
constexpr auto words(Backend) { return names("host", "cuda"); }

}  // namespace shakedown
