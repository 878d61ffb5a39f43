// How much a run measures.
#pragma once

#include "base/names.hpp"

namespace shakedown {

/// gate: the rows of the quick tier that find most faults in ten seconds.
enum class Tier { quick, full, gate };
constexpr auto words(Tier) { return names("quick", "full", "gate"); }

}  // namespace shakedown
