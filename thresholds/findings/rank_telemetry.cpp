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

/// Below this part of its highest clock a GPU is held down, whatever the driver says: in a burst of less than a fifth
/// of a second clocks fell to 1,545 of 1,980 MHz before NVML named the power cap (H200, driver 580.159).
constexpr double full_clock = 0.97;

/// The driver names the power cap late, and bursts are short: a tenth of one says that the limit was reached.
constexpr double capped_part = 0.1;

/// "1,980"
std::string grouped(double value) {
  std::string digits = fmt::format("{:.0f}", std::round(value));
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

RankTelemetry::RankTelemetry(const Benchmarks& benchmarks) {
  for (const auto& [key, benchmark] : benchmarks) {
    // GEMM loads a GPU like nothing else: its clocks, watts and degrees are those to compare.
    (key.family() == "gemm" ? loaded_ : others_).push_back(&benchmark);
  }
}

std::optional<double> RankTelemetry::value(int rank, const std::string& name) const {
  const auto& all = column(name);
  return static_cast<std::size_t>(rank) < all.size() ? all[static_cast<std::size_t>(rank)] : std::nullopt;
}

std::optional<double> RankTelemetry::typical(const std::string& name) const {
  column(name);
  return typical_.at(name);
}

std::optional<double> RankTelemetry::clock_shortfall(int rank) const {
  const auto mine = value(rank, "sm_mhz"), all = typical("sm_mhz");
  return mine && all && *all > 0 ? std::optional(1 - *mine / *all) : std::nullopt;
}

bool RankTelemetry::held_back(int rank) const { return any_reason(rank, protects_gpu); }
bool RankTelemetry::hot(int rank) const { return any_reason(rank, is_heat); }

bool RankTelemetry::power_limited(int rank) const {
  std::size_t capped = 0, known = 0;
  for (const Benchmark* benchmark : loaded_) {
    if (rank >= benchmark->context->world_size) continue;
    for (const Row* row : benchmark->rows) {
      const auto reasons = row->throttle_of(rank);
      const auto cap = reasons.find("sw_power_cap");
      capped += cap != reasons.end() && cap->second >= capped_part ? 1 : 0;
      ++known;
    }
  }
  return 2 * capped > known && !held_back(rank);
}

bool RankTelemetry::power_limited_in(const Benchmark& benchmark, int rank) const {
  const bool capped = std::ranges::all_of(benchmark.rows, [&](const Row* row) {
    const auto reasons = row->throttle_of(rank);
    const auto cap = reasons.find("sw_power_cap");
    return cap != reasons.end() && cap->second >= capped_part;
  });
  return capped && !held_back(rank);
}

bool RankTelemetry::any_reason(int rank, bool (*is_such)(std::string_view)) const {
  for (const Row* row : rows(rank)) {
    for (const auto& [reason, part] : row->throttle_of(rank)) {
      if (is_such(reason)) return true;
    }
  }
  return false;
}

// Those of runs that have this rank, the ones that load the GPU first.
std::vector<const Row*> RankTelemetry::rows(int rank) const {
  std::vector<const Row*> rows;
  for (const auto* benchmarks : {&loaded_, &others_}) {
    for (const Benchmark* benchmark : *benchmarks) {
      if (rank < benchmark->context->world_size)
        rows.insert(rows.end(), benchmark->rows.begin(), benchmark->rows.end());
    }
  }
  return rows;
}

std::string RankTelemetry::text(int rank) const {
  std::vector<std::string> parts;
  for (const auto& [name, unit] : {std::pair{"sm_mhz", " MHz"}, {"power_w", " W"}, {"temperature_c", " C"}}) {
    const auto mine = value(rank, name), all = typical(name);
    if (mine && all)
      parts.push_back(fmt::format("{:.0f}", *mine) + unit + " (peers " + fmt::format("{:.0f}", *all) + ")");
  }
  std::string line = joined(parts);
  const auto add = [&](const std::string& what) { line += (line.empty() ? "" : "; ") + what; };
  Throttle reasons;                 // each once, with its most of all rows
  std::vector<std::string> errors;  // the first three that differ
  const auto note = [](std::vector<std::string>& texts, const std::string& text) {
    if (text.empty() || texts.size() == 3 || std::find(texts.begin(), texts.end(), text) != texts.end()) return;
    texts.push_back(text);
  };
  for (const Row* row : rows(rank)) {
    for (const auto& [reason, part] : row->throttle_of(rank)) reasons[reason] = std::max(reasons[reason], part);
    note(errors, errors_text(row->errors_of(rank), row->errors_rows));
  }
  if (!reasons.empty()) add("throttled: " + throttle_text(reasons));
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
  for (const auto* benchmarks : {&loaded_, &others_}) {
    for (const Benchmark* benchmark : *benchmarks) {
      const auto& ranks = benchmark->context->ranks;
      if (static_cast<std::size_t>(rank) >= ranks.size()) continue;
      if (const auto& list = ranks[static_cast<std::size_t>(rank)].processes; list && !list->empty()) return *list;
    }
  }
  return {};
}

const std::vector<std::optional<double>>& RankTelemetry::column(const std::string& name) const {
  const auto [found, fresh] = columns_.emplace(name, std::vector<std::optional<double>>{});
  if (!fresh) return found->second;
  auto& column = found->second;
  std::vector<std::vector<double>> samples;
  for (const Benchmark* benchmark : loaded_) {
    for (const Row* row : benchmark->rows) {
      const auto list = row->by_rank.find(name);
      if (list == row->by_rank.end()) continue;
      samples.resize(std::max(samples.size(), list->second.size()));
      for (std::size_t rank = 0; rank < list->second.size(); ++rank) {
        if (list->second[rank]) samples[rank].push_back(*list->second[rank]);
      }
    }
  }
  std::vector<double> known;
  for (auto& values : samples) {
    column.push_back(values.empty() ? std::nullopt : std::optional(median(std::move(values))));
    if (column.back()) known.push_back(*column.back());
  }
  typical_[name] = known.empty() ? std::nullopt : std::optional(median(std::move(known)));
  return column;
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
