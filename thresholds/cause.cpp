// Decides what a failing finding says about the GPU it names. Tested by tests/cause_test.cpp
// (build/tests/verdict_test).
#include "thresholds/cause.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/gpu_health.hpp"

namespace shakedown {
namespace {

/// Below this part of its highest clock a GPU is held down, whatever the driver says: in a burst of less than a fifth
/// of a second clocks fell to 1,545 of 1,980 MHz before NVML named the power cap (H200, driver 580.159).
constexpr double full_clock = 0.97;

/// "1,980"
std::string grouped(double value) {
  std::string digits = std::to_string(std::llround(value));
  for (auto at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::optional<double> value_of(const ByRank& by_rank, const std::string& name, std::size_t rank) {
  const auto found = by_rank.find(name);
  return found == by_rank.end() ? std::nullopt : found->second.at(rank);
}

/// Of the repetition in which the GPU was throttled most.
Throttle reasons_of(const Benchmark& benchmark, std::size_t rank) {
  Throttle reasons;
  double most = -1;
  for (const Row* row : benchmark.rows) {
    const double throttled = value_of(row->by_rank, "throttled", rank).value_or(0);
    auto of_row = row->throttle_of(static_cast<int>(rank));
    if (of_row.empty() || throttled <= most) continue;
    most = throttled;
    reasons = std::move(of_row);
  }
  return reasons;
}

/// "1,410 of 1,980 MHz"; the highest possible is left out where it is unknown.
std::string part_of(double value, const std::optional<double>& whole, const std::string& unit) {
  return grouped(value) + (whole ? " of " + grouped(*whole) : "") + " " + unit;
}

std::string text_of(const OtherProcess& process) {
  std::string text = process.pid ? "pid " + std::to_string(*process.pid) : "a process";
  if (process.name) text += " " + *process.name;
  if (process.memory_bytes) {
    text += " (" + std::to_string(std::llround(static_cast<double>(*process.memory_bytes) / 1e6)) + " MB)";
  }
  return text;
}

}  // namespace

std::string cause(const Benchmark& benchmark, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  const RankFacts& facts = benchmark.context->ranks.at(r);
  const auto typical = [&](const char* metric) -> std::optional<double> {
    const auto values = rank_values(benchmark, metric);
    return values.empty() ? std::nullopt : values.at(r);
  };
  std::string text;
  const auto add = [&](const std::string& part, const char* separator = ", ") {
    if (!part.empty()) text += (text.empty() ? "" : separator) + part;
  };

  const auto reasons = reasons_of(benchmark, r);
  const auto throttled = typical("throttled"), clock = typical("sm_mhz"), power = typical("power_w"),
             heat = typical("temperature_c");
  const bool slowed = clock && facts.sm_mhz_max && *clock < full_clock * *facts.sm_mhz_max;
  if (!reasons.empty()) {
    add(throttle_in_words(reasons));
  } else if (throttled && !slowed) {
    add("not throttled");
  }
  if (clock) add(part_of(*clock, facts.sm_mhz_max, "MHz"));
  if (reasons.empty() && throttled && slowed) add("for which the driver names no reason", " ");
  const auto any = [&](auto is_such) {
    return std::any_of(reasons.begin(), reasons.end(), [&](const auto& reason) { return is_such(reason.first); });
  };
  if (power && any(is_power)) add(part_of(*power, facts.power_limit_w, "W"));
  if (heat && any([](const auto& reason) { return protects_gpu(reason) && !is_power(reason); }))
    add(grouped(*heat) + " C");

  std::set<std::string> errors;
  for (const Row* row : benchmark.rows) errors.insert(errors_text(row->errors_of(rank), row->errors_rows));
  for (const auto& error : errors) add(error.empty() ? "" : "errors meanwhile: " + error, "; ");
  std::string others;
  for (const auto& process : facts.processes.value_or(std::vector<OtherProcess>{})) {
    others += (others.empty() ? "" : ", ") + text_of(process);
  }
  add(others.empty() ? "" : "the GPU was in use by " + others, "; ");
  return text;
}

}  // namespace shakedown
