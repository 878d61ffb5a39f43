// How much healthy chips differ. The tails of their distribution are heavier than those of a normal distribution: Sinha
// et al. (SC22, arXiv 2208.11035v3) have clusters whose chips are 8 % apart on average and 22 % at most, and outliers,
// healthy or not, that are 1.5 times slower. Student's t with 5 degrees of freedom describes both. The functions are
// pure.
#pragma once

#include <cstddef>

namespace shakedown {

/// The fraction of large fleets in which the limits of a class may name a healthy chip. Each fleet has one limit for
/// all its chips: the slowest of 4,096 healthy chips is farther from the others than the slowest of 8.
inline constexpr double healthy_named = 3e-4;
/// The least number of GPUs of a fleet whose slowest healthy chip may be farther from the others than limits that were
/// measured on a few GPUs allow.
inline constexpr std::size_t large_fleet = 65;
/// If only the power cap lowers the clock of a chip, the chip neither passes nor fails from slowest_of() to this
/// distance from the median: power explains its clock, but chips are rarely that slow.
inline constexpr double doubtful_by_power = 0.5;
inline constexpr const char* slow_chip_text =
    "only the power cap lowers its clock, but chips of a run of this size are rarely that slow";

/// Returns how much slower a chip is whose time or rate has this shortfall: a time of 1.25 is a rate that is 20 %
/// lower.
inline double slower_by(double shortfall, bool of_time) { return of_time ? shortfall / (1 + shortfall) : shortfall; }

/// Returns how far the slowest of n healthy chips is from the centre, in standard deviations. In a fraction `alpha` of
/// fleets it is further.
double worst_of(std::size_t n, double alpha);

/// Returns how far the worst of any number of healthy chips may be from the centre if the best is at this distance.
/// With the tails of chips on both sides, the worst is farther in a fraction `healthy_named` of fleets.
double worst_by_best(double best);

/// Returns how far the slowest of n chips may be below the median, at most 22 %. `by_power`: only the power cap lowers
/// its clock. The result is then 22 % up to 64 chips. For more it is 33 %, as no published outlier is more than 1.5
/// times slower, and an accusation of a chip whose clock power explains is more likely to be wrong than right.
double slowest_of(std::size_t n, bool by_power);

}  // namespace shakedown
