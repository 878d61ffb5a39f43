#include "thresholds/judge/step_times.hpp"

#include <optional>

namespace shakedown {
namespace {

std::string metric_of(PartClass part_class) { return std::string(name(part_class)) + "_ms"; }

/// Returns the rank with the least wait that has a profile; nullopt if none has.
std::optional<std::size_t> busiest_rank(const Benchmark& benchmark) {
  const auto whole = rank_values(benchmark, "profiled_ms");
  const auto waits = rank_values(benchmark, metric_of(PartClass::communication));
  std::optional<std::size_t> busiest;
  for (std::size_t rank = 0; rank < whole.size() && rank < waits.size(); ++rank) {
    if (whole[rank] && waits[rank] && (!busiest || *waits[rank] < *waits[*busiest])) busiest = rank;
  }
  return busiest;
}

StepTimes times_of(const Benchmark& benchmark, std::size_t rank) {
  const auto value = [&](const std::string& metric) {
    const auto values = rank_values(benchmark, metric);
    return rank < values.size() ? values[rank].value_or(0) : 0;
  };
  StepTimes times{.key = benchmark.key, .rank = static_cast<int>(rank)};
  for (std::size_t i = 0; i < times.class_ms.size(); ++i) {
    times.class_ms[i] = value(metric_of(static_cast<PartClass>(i)));
  }
  times.fixed_ms = value("fixed_ms");
  times.whole_ms = value("profiled_ms");
  times.cost_percent = value("profile_cost_percent");
  const auto sources = rank_texts(benchmark, profile_source_fact);
  if (rank < sources.size()) times.source = sources[rank].value_or("");
  return times;
}

}  // namespace

std::vector<StepTimes> step_times_of(const Benchmarks& benchmarks) {
  std::vector<StepTimes> all;
  for (const auto& [key, benchmark] : benchmarks) {
    if (const auto rank = busiest_rank(benchmark)) all.push_back(times_of(benchmark, *rank));
  }
  return all;
}

}  // namespace shakedown
