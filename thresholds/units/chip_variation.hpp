// What healthy chips differ by. Their tails are heavier than normal ones: Sinha et al. (SC22, arXiv 2208.11035v3) have
// clusters whose chips are 8 % apart on average and 22 % at the most, and single ones that are 1.5 times slower.
// Student's t of 5 degrees of freedom fits both. Pure.
#pragma once

#include <cstddef>

namespace shakedown {

/// How many standard deviations the worst of n healthy ones lies from their centre, in all but a part `alpha` of
/// fleets.
double worst_of(std::size_t n, double alpha);

/// How far the rate of the slowest of n healthy chips is below their median. `by_power`: it draws all the power that it
/// may, and nothing else holds its clock: then that is what this chip does with so many watts, however far it is
/// behind; else the 22 % are the most.
double slowest_of(std::size_t n, bool by_power);

}  // namespace shakedown
