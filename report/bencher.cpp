#include "report/bencher.hpp"

#include <algorithm>

#include "base/archive.hpp"

namespace shakedown {

std::string bencher_json(const Judged& judged) {
  using nlohmann::ordered_json;
  ordered_json all = ordered_json::object();
  if (!judged.measured) return text_of_document(all, -1) + "\n";
  for (const auto& [key, benchmark] : judged.measured->benchmarks) {
    const std::string metric = headline_metric(benchmark);
    if (metric.empty() || benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
    const auto value = run_value(benchmark, metric);
    if (!value) continue;
    double low = *value, high = *value;
    for (const auto& of_rank : rank_values(benchmark, metric)) {
      low = std::min(low, of_rank.value_or(low));
      high = std::max(high, of_rank.value_or(high));
    }
    all[key][metric] = {{"value", *value}, {"lower_value", low}, {"upper_value", high}};
  }
  return text_of_document(all, 1) + "\n";
}

}  // namespace shakedown
