// Why a rank is slow, as far as its GPU's telemetry and the processes found there tell. Pure.
#pragma once

#include <string>

#include "thresholds/measured.hpp"

namespace shakedown {

/// "software power cap 38 % of the time, 1,410 of 1,980 MHz, 699 of 700 W"; what held the clock down first, then the
/// clock, errors that the GPU counted, and others who used it. A GPU that nothing held down is said to be so: then the
/// cause lies elsewhere. Empty where nothing is known. Over repetitions: the clock's median, the most throttled one's
/// reasons, all errors.
std::string cause(const Benchmark&, int rank);

}  // namespace shakedown
