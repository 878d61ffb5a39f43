// The differences between healthy chips. Their tails are heavier than normal ones: Sinha et al. (SC22, arXiv
// 2208.11035v3) have clusters whose chips are 8 % apart on average and 22 % at the most, and single ones that are 1.5
// times slower. Student's t of 5 degrees of freedom fits both. Pure.
#pragma once

#include <cstddef>

namespace shakedown {

/// The distance of the worst of n healthy chips from their centre in standard deviations, in all but a share `alpha` of
/// fleets.
double worst_of(std::size_t n, double alpha);

/// How far the rate of the slowest of n healthy chips is below their median. `by_power`: it draws all the power that it
/// may, and nothing else lowers its clock: then this is the rate of the chip at that power, however low it is; else
/// 22 % is the most.
double slowest_of(std::size_t n, bool by_power);

}  // namespace shakedown
