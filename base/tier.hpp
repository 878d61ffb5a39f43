// How much a run measures.
#pragma once

#include "base/names.hpp"

namespace shakedown {

enum class Tier { quick, full };
constexpr auto words(Tier) { return names("quick", "full"); }

}  // namespace shakedown
