#include "report/costs.hpp"

#include <fmt/format.h>

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
  Table table({{"row"}, {"tokens/s"}, {"J/token"}, {"10^6 tokens"}, {"10^12 tokens"}, {"days"}});
  int gpus = 0;
  for (const auto& [key, benchmark] : benchmarks) {
    const double rate = run_value(benchmark, "tokens_per_s_total").value_or(0);
    if (!(rate > 0)) continue;
    const int ranks = benchmark.context->world_size;
    const double million = cost_of_a_million(price, rate / ranks);
    table.add_words({key.text(), fmt::format("{:.0f}", rate), mean_text(rank_values(benchmark, "joule_per_token")),
                     fmt::format("{:.4f}", million), fmt::format("{:.0f}", million * tokens / 1e6),
                     fmt::format("{:.0f}", tokens / rate / seconds_of_a_day)});
    gpus = std::max(gpus, ranks);
  }
  if (gpus == 0) return "";
  return fmt::format("training on {} at {} for a GPU hour:\n", plural(gpus, "GPU"), price) + table.text(style) +
         fmt::format("a GPU that is 1 % slow costs {:.2f} in 30 days\n\n", 0.01 * price * 24 * 30);
}

}  // namespace shakedown
