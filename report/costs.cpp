#include "report/costs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

std::string mean_text(const RankValues& values) {
  double sum = 0;
  int known = 0;
  for (const auto& value : values) {
    sum += value.value_or(0);
    known += value.has_value();
  }
  return known == 0 ? "-" : fmt::format("{:.4f}", sum / known);
}

}  // namespace

double cost_of_a_million(double price, double rate) { return 1e6 * price / (3600 * rate); }

std::string costs_text(const Benchmarks& benchmarks, double price, const Table::Style& style) {
  constexpr double tokens = 1e12, seconds_of_a_day = 86400;
  Table table({{"row"}, {"tokens/s"}, {"J/token"}, {"cost of 10^6 tokens"}, {"of 10^12 tokens"}, {"days for 10^12"}});
  int gpus = 0;
  for (const auto& [key, benchmark] : benchmarks) {
    const double rate = run_value(benchmark, "tokens_per_s_total").value_or(0);
    if (!(rate > 0)) continue;
    const int ranks = benchmark.context->world_size;
    const double million = cost_of_a_million(price, rate / ranks);
    table.add_words({key.text(), fmt::format("{:.0f}", rate), mean_text(rank_values(benchmark, "joule_per_token")),
                     number_text(million), number_text(million * tokens / 1e6),
                     fmt::format("{:.0f}", tokens / rate / seconds_of_a_day)});
    gpus = std::max(gpus, ranks);
  }
  if (gpus == 0) return "costs: the run has no training row\n\n";
  return fmt::format("training on {} at {} for a GPU hour:\n", plural(gpus, "GPU"), price) + table.text(style) +
         fmt::format("a GPU that is 1 % slow costs {} in 30 days\n\n", number_text(0.01 * price * 24 * 30));
}

}  // namespace shakedown
