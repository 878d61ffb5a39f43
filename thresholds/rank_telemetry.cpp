#include "thresholds/rank_telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.hpp"
#include "base/text.hpp"

namespace shakedown {

RankTelemetry::RankTelemetry(const Benchmarks& benchmarks) {
  for (const auto& [key, benchmark] : benchmarks) {
    // GEMM loads a GPU like nothing else: its clocks, watts and degrees are those to compare.
    (family_of(key) == "gemm" ? loaded_ : others_).push_back(&benchmark);
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
  std::vector<std::string> reasons, errors;  // the first three that differ
  const auto note = [](std::vector<std::string>& texts, const std::string& text) {
    if (text.empty() || texts.size() == 3 || std::find(texts.begin(), texts.end(), text) != texts.end()) return;
    texts.push_back(text);
  };
  for (const Row* row : rows(rank)) {
    note(reasons, throttle_text(row->throttle_of(rank)));
    note(errors, errors_text(row->errors_of(rank), row->errors_rows));
  }
  if (!reasons.empty()) add("throttled: " + joined(reasons, ", ", " and "));
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

}  // namespace shakedown
