// How far a unit may be from its peers, or from the limits of a profile, and still be healthy. The tails of the
// distribution of healthy chips are heavier than those of a normal distribution: Sinha et al. (SC22, arXiv
// 2208.11035v3) have clusters whose chips are 8 % apart on average and 22 % at most, and outliers, healthy or not, that
// are 1.5 times slower. Student's t with 5 degrees of freedom describes both. The functions are pure.
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
/// The fraction of fleets of up to 64 GPUs in which the limits of a class may name a healthy chip, and the largest
/// multiple of the distance of the best GPU. In larger fleets the tails of healthy chips reach farther.
inline constexpr double alpha_of_small_fleets = 0.01, of_the_best_of_small_fleets = 4;
/// The smallest distance from the best quarter of the GPUs at which GEMM per GHz or memory fails. A healthy GPU with
/// remapped rows reads 2.3 % slower than its peers (tests/data/h200-sxm-4ranks-full). Up to this distance, a GPU may
/// also have memory of another make, and is a warning. Fleets must show memory and, up to 64 GPUs, GEMM that are 3 %
/// slow. The limit is a sixth below these faults, because the faulty GPU varies as well.
inline constexpr double least_fault = 0.025;
/// The largest limit of GEMM per GHz in large fleets, which must show GEMM that is 5 % slow. It is a sixth below.
inline constexpr double max_gemm_limit = 0.042;
/// Floors are below the slowest of a few healthy chips. The limit must be at most this fraction of the median of a
/// healthy fleet.
inline constexpr double healthy_distance = 0.90;
/// Warm racks, slow deliveries and falling clocks make a healthy fleet 5 % slower than the few GPUs of a reference. For
/// a chip at its power limit, a third of the distance is therefore enough.
inline constexpr double distance_by_power = 0.97;
/// If at least this fraction of the units of a class misses limits, and at least this many, the whole fleet is low.
inline constexpr double fleet_share = 0.1;
inline constexpr std::size_t min_fleet_units = 3;
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
