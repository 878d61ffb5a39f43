// How much healthy chips differ. The tails of their distribution are heavier than those of a normal distribution: Sinha
// et al. (SC22, arXiv 2208.11035v3) have clusters whose chips are 8 % apart on average and 22 % at most, and single
// chips that are 1.5 times slower. Student's t with 5 degrees of freedom describes both. The functions are pure.
#pragma once

#include <cstddef>

namespace shakedown {

/// Returns how far the slowest of n healthy chips is from the centre, in standard deviations. In a fraction `alpha` of
/// fleets it is further.
double worst_of(std::size_t n, double alpha);

/// Returns how far the slowest of n healthy chips is below the median. `by_power`: only the power cap lowers its clock;
/// if false, the result is at most 22 %.
double slowest_of(std::size_t n, bool by_power);

}  // namespace shakedown
