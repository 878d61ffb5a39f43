#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace shakedown {
namespace {

// Returns the distribution of U: counts[u] is the number of orders of n values among m others in which u pairs are in
// ascending order. The numbers are the coefficients of the Gaussian binomial, by
// N(n, m) = N(n - 1, m) shifted by m + N(n, m - 1). The coefficients are stored as fractions of 1 to avoid overflow.
std::vector<double> distribution_of_u(std::size_t n, std::size_t m) {
  std::vector<std::vector<double>> row(m + 1, {1.0});  // for n = 0, u is always 0
  for (std::size_t i = 1; i <= n; ++i) {
    std::vector<std::vector<double>> next(m + 1);
    next[0] = {1.0};
    for (std::size_t j = 1; j <= m; ++j) {
      // The largest of the i + j values is one of the i with probability i / (i + j). This value then exceeds all j
      // others.
      const double mine = static_cast<double>(i) / static_cast<double>(i + j);
      next[j].assign(i * j + 1, 0.0);
      for (std::size_t u = 0; u < row[j].size(); ++u) next[j][u + j] += mine * row[j][u];
      for (std::size_t u = 0; u < next[j - 1].size(); ++u) next[j][u] += (1 - mine) * next[j - 1][u];
    }
    row = std::move(next);
  }
  return row[m];
}

// The ranks of all values of both samples, where 1 is the smallest. Tied values get their mean rank. Doubled ranks are
// integers.
struct Ranking {
  std::vector<std::size_t> doubled;  // of the values of both samples, in ascending order
  double u = 0;
  double ties = 0;  // sum of t^3 - t over groups of t equal values
};

Ranking rank_all(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<std::pair<double, bool>> all;  // the value, and whether it belongs to y
  for (const double value : x) all.emplace_back(value, false);
  for (const double value : y) all.emplace_back(value, true);
  std::sort(all.begin(), all.end());
  Ranking ranking;
  double x_below = 0;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    double x_here = 0, y_here = 0;
    for (; end < all.size() && all[end].first == all[begin].first; ++end) (all[end].second ? y_here : x_here) += 1;
    ranking.doubled.insert(ranking.doubled.end(), end - begin, begin + end + 1);
    ranking.u += y_here * (x_below + x_here / 2);
    const double t = x_here + y_here;
    ranking.ties += t * t * t - t;
    x_below += x_here;
  }
  return ranking;
}

// Returns the probability that the sum of m of these doubled ranks is at most `sum`, if every choice of m ranks is
// equally likely.
double p_of_rank_sum(const std::vector<std::size_t>& doubled, std::size_t m, std::size_t sum) {
  // By count and sum: the number of ways to choose ranks.
  std::vector<std::vector<double>> ways(m + 1, std::vector<double>(sum + 1, 0.0));
  double all_ways = 1;
  ways[0][0] = 1;
  for (std::size_t i = 0; i < doubled.size(); ++i) {
    for (std::size_t chosen = std::min(i + 1, m); chosen >= 1; --chosen) {
      for (std::size_t s = sum + 1; s-- > doubled[i];) ways[chosen][s] += ways[chosen - 1][s - doubled[i]];
    }
  }
  for (std::size_t i = 1; i <= m; ++i) all_ways *= static_cast<double>(doubled.size() - m + i) / static_cast<double>(i);
  return std::accumulate(ways[m].begin(), ways[m].end(), 0.0) / all_ways;
}

MannWhitney test_with_ties(const Ranking& ranking, std::size_t n, std::size_t m) {
  MannWhitney test;
  test.u = ranking.u;
  // Sum of the doubled ranks of y.
  const auto of_y = static_cast<std::size_t>(std::llround(2 * ranking.u)) + m * (m + 1);
  const auto of_x = (n + m) * (n + m + 1) - of_y;
  test.p_less = p_of_rank_sum(ranking.doubled, m, of_y);
  test.p_greater = p_of_rank_sum(ranking.doubled, n, of_x);
  return test;
}

// Returns P(U <= u).
double tail(const std::vector<double>& distribution, double u) {
  const auto last = static_cast<std::ptrdiff_t>(u) + 1;
  return std::accumulate(distribution.begin(), distribution.begin() + last, 0.0);
}

double sigma_of_u(double n, double m, double tie_correction) {
  const double all = n + m;
  return std::sqrt(n * m / 12 * (all + 1 - tie_correction / (all * (all - 1))));
}

}  // namespace

double quantile(std::vector<double> values, double p) {
  if (values.empty()) throw std::invalid_argument("a quantile of nothing");
  const double position = p * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(values.begin(), below, values.end());
  if (below + 1 == values.end()) return *below;
  const double above = *std::min_element(below + 1, values.end());
  return *below + (position - std::floor(position)) * (above - *below);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double coefficient_of_variation(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (n - 1)) / mean;
}

double robust_sigma(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return 1.4826 * median(std::move(distances));
}

double binomial_upper_bound(int k, int n, double odds) {
  if (k >= n) return 1;
  const auto at_most_k = [&](double p) {
    double sum = 0;
    for (int i = 0; i <= k; ++i) {
      sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) + i * std::log(p) +
                      (n - i) * std::log1p(-p));
    }
    return sum;
  };
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (at_most_k(middle) > odds ? low : high) = middle;
  }
  return high;
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// Finds the quantile by bisection of normal_cdf. Bisection is accurate in the far tails, where closed-form
// approximations are not.
double normal_quantile(double p) {
  if (!(p > 0 && p < 1)) throw std::invalid_argument("a normal quantile outside of 0 to 1");
  if (p > 0.5) return -normal_quantile(1 - p);  // keeps the precision of small tails
  double low = -38, high = 0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (normal_cdf(middle) < p ? low : high) = middle;
  }
  return high;
}

double bonferroni_z(std::size_t comparisons, double alpha) {
  return -normal_quantile(alpha / static_cast<double>(std::max<std::size_t>(1, comparisons)));
}

double normal_of_student(double t, double df) {
  const double z = (8 * df + 1) / (8 * df + 3) * std::sqrt(df * std::log1p(t * t / df));
  return std::copysign(z, t);
}

double student_of_normal(double z, double df) {
  const double u = z * (8 * df + 3) / (8 * df + 1);
  return std::copysign(std::sqrt(df * std::expm1(u * u / df)), z);
}

MannWhitney mann_whitney_u(const std::vector<double>& x, const std::vector<double>& y) {
  MannWhitney test;
  if (x.empty() || y.empty()) return test;
  const Ranking ranking = rank_all(x, y);
  const bool exact = std::max(x.size(), y.size()) <= exact_up_to;
  if (exact && ranking.ties > 0) return test_with_ties(ranking, x.size(), y.size());
  test.u = ranking.u;
  const double n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
  if (exact) {
    const auto distribution = distribution_of_u(x.size(), y.size());
    test.p_less = tail(distribution, test.u);
    test.p_greater = tail(distribution, n * m - test.u);
    return test;
  }
  const double sigma = sigma_of_u(n, m, ranking.ties);
  if (!(sigma > 0)) return test;  // all values are equal
  test.p_less = normal_cdf((test.u - n * m / 2 + 0.5) / sigma);
  test.p_greater = normal_cdf((n * m / 2 - test.u + 0.5) / sigma);
  return test;
}

double smallest_p(std::size_t n, std::size_t m) {
  double p = 1;
  for (std::size_t i = 1; i <= n; ++i) p *= static_cast<double>(i) / static_cast<double>(m + i);
  return p;
}

HodgesLehmann hodges_lehmann(const std::vector<double>& x, const std::vector<double>& y, double confidence) {
  std::vector<double> differences;
  differences.reserve(x.size() * y.size());
  for (const double after : y) {
    for (const double before : x) differences.push_back(after - before);
  }
  std::sort(differences.begin(), differences.end());
  HodgesLehmann result;
  result.estimate = median(differences);
  // The shift is below the k-th smallest difference with probability P(U < k).
  std::size_t k = 0;
  if (std::max(x.size(), y.size()) <= exact_up_to) {
    const auto distribution = distribution_of_u(x.size(), y.size());
    for (double below = distribution[0]; k < differences.size() && below <= 1 - confidence; below += distribution[k])
      ++k;
  } else {
    const double n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
    const double u = n * m / 2 - normal_quantile(confidence) * sigma_of_u(n, m, 0);
    if (u >= 1) k = static_cast<std::size_t>(u);
  }
  if (k == 0) return result;
  result.low = differences[k - 1];
  result.high = differences[differences.size() - k];
  return result;
}

TheilSen theil_sen(const std::vector<double>& x, const std::vector<double>& y, double confidence) {
  std::vector<double> slopes;
  slopes.reserve(x.size() * (x.size() - 1) / 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (x[i] != x[j]) slopes.push_back((y[i] - y[j]) / (x[i] - x[j]));
    }
  }
  TheilSen result{median(slopes), std::nullopt, std::nullopt};
  constexpr std::size_t min_points = 10;
  const double n = static_cast<double>(x.size()), pairs = static_cast<double>(slopes.size());
  const double half_width = normal_quantile(confidence) * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto k = static_cast<std::ptrdiff_t>((pairs - half_width) / 2);
  if (x.size() < min_points || k < 1) return result;
  std::sort(slopes.begin(), slopes.end());
  result.low = slopes[static_cast<std::size_t>(k) - 1];
  result.high = slopes[slopes.size() - static_cast<std::size_t>(k)];
  return result;
}

std::vector<bool> benjamini_hochberg(const std::vector<double>& p, double rate) {
  std::vector<double> sorted = p;
  std::sort(sorted.begin(), sorted.end());
  double limit = -1;  // the largest p that does not exceed its share of the rate
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] <= rate * static_cast<double>(i + 1) / static_cast<double>(sorted.size())) limit = sorted[i];
  }
  std::vector<bool> result;
  for (const double value : p) result.push_back(value <= limit);
  return result;
}

std::size_t sample_size(double effect, double sigma, double alpha, double power) {
  std::size_t least = 1;
  while (smallest_p(least, least) > alpha) ++least;
  if (!(sigma > 0)) return least;
  const double z_alpha = -normal_quantile(alpha);
  const double z = normal_quantile(power) + z_alpha;
  const double ratio = z * sigma / effect;
  constexpr double efficiency = 3 / 3.14159265358979;  // of the rank test, relative to the t test, for normal noise
  const double n = 2 * ratio * ratio / efficiency + z_alpha * z_alpha / 4;
  constexpr double max_size = 1e6;  // larger sizes are not practical, so the exact number does not matter
  return std::max(least, static_cast<std::size_t>(std::ceil(std::min(n, max_size))));
}

}  // namespace shakedown
