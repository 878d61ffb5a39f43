// Limits for rounds of pairs of hosts. The ranks measure pairs again by these limits, the judge names hosts and paths
// by them, and the generator of fleets repeats the decisions of the ranks.
#pragma once

namespace shakedown::pair_limits {

/// A rate below this fraction of the usual rate of its rail is slow. The distance of this limit from 1 is three times
/// the variation of the best of three rounds with 1.5 % noise, and half of the smallest fault to report (10 %).
inline constexpr double slow_rate = 0.95;

/// An AllReduce over all rails below this fraction of the usual rate is slow. The slowest of eight rails delays all of
/// them, and in a hundred pairs a rail pauses about three times. A wrong plan of NCCL, or a slow link inside a host,
/// costs more than this.
inline constexpr double slow_sum = 0.7;

/// A rate inside a leaf below this fraction of the usual rate is measured again even if both hosts are fast with other
/// partners.
inline constexpr double implausible_rate = 0.8;

}  // namespace shakedown::pair_limits
