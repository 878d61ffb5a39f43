#include "thresholds/findings/rank_telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/gpu_health.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

/// A GPU whose clock is below this fraction of its highest clock counts as throttled, even if the driver gives no
/// reason. In a burst of less than a fifth of a second, clocks fell to 1,545 of 1,980 MHz before NVML reported the
/// power cap (H200, driver 580.159).
constexpr double full_clock = 0.97;

/// If the driver reports the power cap for this fraction of the samples, the GPU reached the limit. The fraction is
/// small because the driver reports late and bursts are short.
constexpr double capped_part = 0.1;
constexpr const char* power_cap = "sw_power_cap";

/// Returns "1,980".
std::string grouped(double value) {
  std::string digits = fmt::format("{:.0f}", std::round(value));
  for (auto at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::optional<double> value_of(const ByRank& by_rank, const std::string& name, std::size_t rank) {
  const auto found = by_rank.find(name);
  return found == by_rank.end() ? std::nullopt : found->second.at(rank);
}

/// Returns the throttle reasons of the repetition with the most throttling.
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

/// Returns "1,410 of 1,980 MHz", without the maximum if it is unknown.
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

RankTelemetry::RankTelemetry(const Benchmarks& benchmarks) {
  std::vector<const Benchmark*> others;
  for (const auto& [key, benchmark] : benchmarks) {
    (key.family() == "gemm" ? benchmarks_ : others).push_back(&benchmark);
    read(benchmark);
  }
  for (const char* name : {"sm_mhz", "power_w", "temperature_c"}) sensors_[name] = sensor(name, benchmarks_);
  benchmarks_.insert(benchmarks_.end(), others.begin(), others.end());
}

void RankTelemetry::read(const Benchmark& benchmark) {
  const std::size_t ranks = benchmark.context->ranks.size();
  gpus_.resize(std::max(gpus_.size(), ranks));
  const bool gemm = benchmark.key.family() == "gemm";
  for (const Row* row : benchmark.rows) {
    for (std::size_t rank = 0; gemm && rank < ranks; ++rank) ++gpus_[rank].gemm_rows;
    for (const auto& [reason, parts] : row->throttle) {
      const bool protects = protects_gpu(reason), heat = is_heat(reason), cap = gemm && reason == power_cap;
      const bool is_set = gemm && is_clock_setting(reason);
      for (std::size_t rank = 0; rank < std::min(parts.size(), ranks); ++rank) {
        if (!parts[rank] || !(*parts[rank] > 0)) continue;
        Gpu& gpu = gpus_[rank];
        gpu.held_back = gpu.held_back || protects;
        gpu.hot = gpu.hot || heat;
        gpu.capped += cap && *parts[rank] >= capped_part ? 1 : 0;
        gpu.set_rows += is_set && *parts[rank] >= capped_part ? 1 : 0;
      }
    }
  }
}

const RankTelemetry::Gpu& RankTelemetry::gpu(int rank) const {
  static constexpr Gpu unknown;
  return static_cast<std::size_t>(rank) < gpus_.size() ? gpus_[static_cast<std::size_t>(rank)] : unknown;
}

std::optional<double> RankTelemetry::value(int rank, const std::string& name) const {
  const auto found = sensors_.find(name);
  if (found == sensors_.end()) return std::nullopt;
  const auto& all = found->second.by_rank;
  return static_cast<std::size_t>(rank) < all.size() ? all[static_cast<std::size_t>(rank)] : std::nullopt;
}

std::optional<double> RankTelemetry::typical(const std::string& name) const {
  const auto found = sensors_.find(name);
  return found == sensors_.end() ? std::nullopt : found->second.typical;
}

std::optional<double> RankTelemetry::clock_shortfall(int rank) const {
  const auto mine = value(rank, "sm_mhz"), all = typical("sm_mhz");
  return mine && all && *all > 0 ? std::optional(1 - *mine / *all) : std::nullopt;
}

bool RankTelemetry::most_limited_by_setting(std::size_t ranks) const {
  std::size_t limited = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Gpu& known = gpu(static_cast<int>(rank));
    limited += 2 * known.set_rows > known.gemm_rows ? 1 : 0;
  }
  return 2 * limited > ranks;
}

bool RankTelemetry::most_held_back(std::size_t ranks) const {
  std::size_t held = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) held += held_back(static_cast<int>(rank)) ? 1 : 0;
  return 2 * held > ranks;
}

bool RankTelemetry::power_limited(int rank) const {
  const Gpu& known = gpu(rank);
  return 2 * known.capped > known.gemm_rows && !known.held_back;
}

bool RankTelemetry::power_limited_in(const Benchmark& benchmark, int rank) const {
  const bool capped = std::ranges::all_of(benchmark.rows, [&](const Row* row) {
    const auto reasons = row->throttle_of(rank);
    const auto cap = reasons.find(power_cap);
    return cap != reasons.end() && cap->second >= capped_part;
  });
  return capped && !held_back(rank);
}

std::string RankTelemetry::text(int rank) const {
  std::vector<std::string> parts;
  for (const auto& [name, unit] : {std::pair{"sm_mhz", " MHz"}, {"power_w", " W"}, {"temperature_c", " C"}}) {
    const auto mine = value(rank, name), all = typical(name);
    if (mine && all)
      parts.push_back(fmt::format("{:.0f}", *mine) + unit + " (peers " + fmt::format("{:.0f}", *all) + ")");
  }
  std::string line = joined(parts) + (parts.empty() ? "" : " in gemm");
  const auto add = [&](const std::string& what) { line += (line.empty() ? "" : "; ") + what; };
  Throttle reasons;                 // each reason once, with its maximum over all rows
  std::set<std::string> throttled;  // families; a GPU that is at the power limit in GEMM may not be throttled in HBM
  std::vector<std::string> errors;  // the first three errors that differ
  const auto note = [](std::vector<std::string>& texts, const std::string& text) {
    if (text.empty() || texts.size() == 3 || std::find(texts.begin(), texts.end(), text) != texts.end()) return;
    texts.push_back(text);
  };
  for (const Benchmark* benchmark : benchmarks_) {
    if (rank >= benchmark->context->world_size) continue;
    for (const Row* row : benchmark->rows) {
      for (const auto& [reason, part] : row->throttle_of(rank)) {
        reasons[reason] = std::max(reasons[reason], part);
        throttled.insert(benchmark->key.family());
      }
      note(errors, errors_text(row->errors_of(rank), row->errors_rows));
    }
  }
  if (!reasons.empty()) add("throttled in " + joined(throttled) + ": " + throttle_text(reasons));
  std::vector<std::string> others;
  for (const OtherProcess& process : processes(rank)) {
    others.push_back((process.pid ? "pid " + std::to_string(*process.pid) : "unknown") +
                     (process.name ? " " + *process.name : ""));
  }
  if (!others.empty()) add("also in use by " + joined(others));
  if (!errors.empty()) add("errors: " + joined(errors, ", ", " and "));
  return line;
}

std::vector<OtherProcess> RankTelemetry::processes(int rank) const {
  for (const Benchmark* benchmark : benchmarks_) {
    const auto& ranks = benchmark->context->ranks;
    if (static_cast<std::size_t>(rank) >= ranks.size()) continue;
    if (const auto& list = ranks[static_cast<std::size_t>(rank)].processes; list && !list->empty()) return *list;
  }
  return {};
}

RankTelemetry::Sensor RankTelemetry::sensor(const std::string& name, const std::vector<const Benchmark*>& gemms) {
  std::vector<std::vector<double>> samples;
  for (const Benchmark* benchmark : gemms) {
    for (const Row* row : benchmark->rows) {
      const auto list = row->by_rank.find(name);
      if (list == row->by_rank.end()) continue;
      samples.resize(std::max(samples.size(), list->second.size()));
      for (std::size_t rank = 0; rank < list->second.size(); ++rank) {
        if (list->second[rank]) samples[rank].push_back(*list->second[rank]);
      }
    }
  }
  Sensor sensor;
  std::vector<double> known;
  for (auto& values : samples) {
    sensor.by_rank.push_back(values.empty() ? std::nullopt : std::optional(median(std::move(values))));
    if (sensor.by_rank.back()) known.push_back(*sensor.by_rank.back());
  }
  if (!known.empty()) sensor.typical = median(std::move(known));
  return sensor;
}

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
  if (reasons.empty() && throttled && slowed) add("without a reason from the driver", " ");
  const auto any = [&](auto is_such) {
    return std::any_of(reasons.begin(), reasons.end(), [&](const auto& reason) { return is_such(reason.first); });
  };
  if (power && any(is_power)) add(part_of(*power, facts.power_limit_w, "W"));
  if (heat && any([](const auto& reason) { return protects_gpu(reason) && !is_power(reason); }))
    add(grouped(*heat) + " C");

  std::set<std::string> errors;
  for (const Row* row : benchmark.rows) errors.insert(errors_text(row->errors_of(rank), row->errors_rows));
  for (const auto& error : errors) add(error.empty() ? "" : "errors during the run: " + error, "; ");
  std::string others;
  for (const auto& process : facts.processes.value_or(std::vector<OtherProcess>{})) {
    others += (others.empty() ? "" : ", ") + text_of(process);
  }
  add(others.empty() ? "" : "the GPU was in use by " + others, "; ");
  return text;
}

}  // namespace shakedown
