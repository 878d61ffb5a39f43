// The differences between healthy chips. Their tails are heavier than normal ones: Sinha et al. (SC22, arXiv
// 2208.11035v3) have clusters whose chips are 8 % apart on average and 22 % at the most, and single ones that are 1.5
// times slower. Student's t of 5 degrees of freedom fits both. Pure.
#pragma once

#include <cstddef>

namespace shakedown {

/// Returns the distance of the slowest of n healthy chips from the centre, in standard deviations, in all but a share
/// `alpha` of fleets.
double worst_of(std::size_t n, double alpha);

/// Returns how far the slowest of n healthy chips is below the median. `by_power`: only the power cap lowers its clock;
/// otherwise at most 22 %.
double slowest_of(std::size_t n, bool by_power);

}  // namespace shakedown
