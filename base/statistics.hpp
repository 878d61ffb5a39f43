// The statistics of the judgement, each with its formula and source; docs/statistics.md says what they are used for.
// Pure functions of numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace shakedown {

/// The p-quantile, 0 <= p <= 1, by linear interpolation between order statistics (Hyndman and Fan, 1996, type 7).
/// Errors: std::invalid_argument for no values.
double quantile(std::vector<double> values, double p);

/// The 0.5-quantile: of an even number the mean of the two in the middle.
double median(std::vector<double> values);

/// Sample standard deviation over mean. Needs two values and a mean that is not 0.
double coefficient_of_variation(const std::vector<double>& values);

/// 1.4826 times the median distance from the median: the standard deviation of normal values, and hardly moved by a few
/// wild ones (Hampel, 1974). 0 for one value, and where more than half of the values are equal.
double robust_sigma(const std::vector<double>& values);

double normal_cdf(double z);
/// The z below which a standard normal value lies with probability p, 0 < p < 1.
double normal_quantile(double p);

/// How far from the centre, in standard deviations, a normal value must lie so that among `comparisons` healthy ones
/// any lies there with probability `alpha` at most (Bonferroni, one side).
double bonferroni_z(std::size_t comparisons, double alpha);

/// The normal value that is as unlikely as `t` of Student's distribution with `df` degrees of freedom, and the inverse:
/// z = (8 df + 1) / (8 df + 3) sqrt(df ln(1 + t^2 / df)), with the sign of t (Wallace, 1959). From df = 5 on its error
/// is below 1 % for |z| < 5.
double normal_of_student(double t, double df);
double student_of_normal(double z, double df);

/// Mann-Whitney U test of y against x (Mann and Whitney, 1947). u counts the pairs with y > x, ties as a half.
struct MannWhitney {
  double u = 0;
  double p_less = 1;     // so few pairs with y > x by chance, if both come from one distribution
  double p_greater = 1;  // so many
};

/// Exact by counting, also with equal values, where each side has at most `exact_up_to` values, else by the normal
/// approximation with corrections for ties and continuity. One side without values: p = 1.
MannWhitney mann_whitney_u(const std::vector<double>& x, const std::vector<double>& y);
inline constexpr std::size_t exact_up_to = 25;

/// The smallest p that mann_whitney_u can give: 1 over the number of ways to choose n of n + m.
double smallest_p(std::size_t n, std::size_t m);

/// How much larger y is than x: the median of all differences y - x (Hodges and Lehmann, 1963), and the bounds that the
/// true shift exceeds, or stays below, with probability `confidence` each (the rank test turned around). nullopt: too
/// few values for that confidence.
struct HodgesLehmann {
  double estimate = 0;
  std::optional<double> low, high;
};
HodgesLehmann hodges_lehmann(const std::vector<double>& x, const std::vector<double>& y, double confidence);

/// How y grows with x: the median of the slopes between all two points (Theil, 1950; Sen, 1968), which a quarter of
/// wild values does not move, and the bounds that the true slope exceeds, or stays below, with probability `confidence`
/// each (Sen, by the variance of Kendall's S). nullopt: fewer than 10 values, for which that is too rough, or too few
/// for this confidence. For values whose errors are independent. Errors: std::invalid_argument for no two different x.
struct TheilSen {
  double slope = 0;
  std::optional<double> low, high;
};
TheilSen theil_sen(const std::vector<double>& x, const std::vector<double>& y, double confidence);

/// Which of these hypotheses are rejected by the step-up procedure of Benjamini and Hochberg (1995): if none of them is
/// false, any rejection has probability `rate` at most; else at most this part of the rejections is wrong, on average.
/// For independent p, and such as rise together (Benjamini and Yekutieli, 2001).
std::vector<bool> benjamini_hochberg(const std::vector<double>& p, double rate);

/// How many values on each side let the rank test, at level `alpha`, see a shift of `effect` in noise of standard
/// deviation `sigma` with probability `power`: 2 (z_alpha + z_power)^2 (sigma / effect)^2, over the rank test's
/// efficiency of 3/pi in normal noise (Lehmann, Nonparametrics, 1975), plus z_alpha^2 / 4 for small numbers (Guenther,
/// 1981); and at least as many as can reach that level at all.
std::size_t sample_size(double effect, double sigma, double alpha, double power);

}  // namespace shakedown
