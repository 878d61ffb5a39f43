// Statistics for the judge, each with its formula and source. docs/statistics.md describes their use. Pure functions of
// numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace shakedown {

/// Returns the p-quantile, 0 <= p <= 1, by linear interpolation between order statistics (Hyndman and Fan, 1996, type
/// 7). Errors: std::invalid_argument if there are no values.
double quantile(std::vector<double> values, double p);

/// Returns the median; the mean of the two middle values if their number is even.
double median(std::vector<double> values);

/// Returns the sample standard deviation divided by the mean. Needs at least two values and a mean other than 0.
double coefficient_of_variation(const std::vector<double>& values);

/// Returns 1.4826 times the median absolute deviation. The result estimates the standard deviation of normal values and
/// is robust against outliers (Hampel, 1974). 0 for one value, and if more than half of the values are equal.
double robust_sigma(const std::vector<double>& values);

/// Returns the upper bound of a probability that was met in `k` of `n` independent trials: with a larger probability,
/// `k` or fewer would be met with probability below `odds` (Clopper and Pearson, 1934; one-sided). For k = 0 and odds
/// 0.05 it is the rule of three. The lower bound is 1 - binomial_upper_bound(n - k, n, odds).
double binomial_upper_bound(int k, int n, double odds = 0.05);

double normal_cdf(double z);
/// Returns z such that a standard normal value is below it with probability p, 0 < p < 1.
double normal_quantile(double p);

/// Returns the distance from the mean, in standard deviations, that any of `comparisons` healthy normal values exceeds
/// with probability at most `alpha` (Bonferroni, one-sided).
double bonferroni_z(std::size_t comparisons, double alpha);

/// Returns the normal value that is as unlikely as `t` in Student's distribution with `df` degrees of freedom: z = (8
/// df + 1) / (8 df + 3) sqrt(df ln(1 + t^2 / df)), with the sign of t (Wallace, 1959). The second function is the
/// inverse. From df = 5 on, the error is below 1 % for |z| < 5.
double normal_of_student(double t, double df);
double student_of_normal(double z, double df);

/// Mann-Whitney U test of y against x (Mann and Whitney, 1947). u counts the pairs with y > x; ties count as one half.
struct MannWhitney {
  double u = 0;
  double p_less = 1;     // probability of at most u pairs with y > x if both samples have the same distribution
  double p_greater = 1;  // probability of at least u pairs with y > x in the same case
};

/// Runs the test. Counts exactly, also if there are ties, if each side has at most `exact_up_to` values. Otherwise uses
/// the normal approximation with tie and continuity corrections. p is 1 if one side has no values.
MannWhitney mann_whitney_u(const std::vector<double>& x, const std::vector<double>& y);
inline constexpr std::size_t exact_up_to = 25;

/// Returns the smallest p that mann_whitney_u can return: 1 over the number of ways to choose n of n + m.
double smallest_p(std::size_t n, std::size_t m);

/// The shift of y relative to x: the median of all differences y - x (Hodges and Lehmann, 1963). The true shift is
/// above `low` with probability `confidence`, and below `high` with the same probability (by inverting the rank test).
/// The bounds are nullopt if there are too few values for that confidence.
struct HodgesLehmann {
  double estimate = 0;
  std::optional<double> low, high;
};
HodgesLehmann hodges_lehmann(const std::vector<double>& x, const std::vector<double>& y, double confidence);

/// The slope of y over x: the median of the slopes between all pairs of points (Theil, 1950; Sen, 1968). Up to a
/// quarter of the points may be outliers. The true slope is above `low` with probability `confidence`, and below `high`
/// with the same probability (Sen, by the variance of Kendall's S). The bounds are nullopt for fewer than 10 values,
/// because the approximation is then too rough, and if there are too few values for this confidence. Requires
/// independent errors. Errors: std::invalid_argument if all x are equal.
struct TheilSen {
  double slope = 0;
  std::optional<double> low, high;
};
TheilSen theil_sen(const std::vector<double>& x, const std::vector<double>& y, double confidence);

/// Returns which hypotheses the step-up procedure of Benjamini and Hochberg (1995) rejects. If all hypotheses are true,
/// the probability of a rejection is at most `rate`. If some are false, at most this fraction of the rejections is
/// wrong, on average. Valid if the p values are independent or positively dependent (Benjamini and Yekutieli, 2001).
std::vector<bool> benjamini_hochberg(const std::vector<double>& p, double rate);

/// Returns the number of values per side for the rank test at level `alpha` to detect a shift of `effect` with
/// probability `power`. The noise has the standard deviation `sigma`. The formula is 2 (z_alpha + z_power)^2 (sigma /
/// effect)^2 / (3/pi) + z_alpha^2 / 4. In the formula, 3/pi is the efficiency of the rank test in normal noise
/// (Lehmann, Nonparametrics, 1975), and the last term corrects for small samples (Guenther, 1981). At least the number
/// of values that can reach that level at all.
std::size_t sample_size(double effect, double sigma, double alpha, double power);

}  // namespace shakedown
