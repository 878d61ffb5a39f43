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

bool RankTelemetry::held_back(int rank) const {
  for (const std::string& reason : words(rank, "throttle")) {
    for (const char* word : {"thermal", "hw_slowdown", "power_brake"}) {
      if (reason.find(word) != std::string::npos) return true;
    }
  }
  return false;
}

std::vector<std::string> RankTelemetry::words(int rank, const std::string& name) const {
  std::vector<std::string> found;
  for (const auto* benchmarks : {&loaded_, &others_}) {
    for (const Benchmark* benchmark : *benchmarks) {
      for (const Row* row : benchmark->rows) {
        const auto list = row->text_by_rank.find(name);
        if (list == row->text_by_rank.end() || static_cast<std::size_t>(rank) >= list->second.size()) continue;
        const auto& word = list->second[static_cast<std::size_t>(rank)];
        if (word && !word->empty() && std::find(found.begin(), found.end(), *word) == found.end()) {
          found.push_back(*word);
        }
      }
    }
  }
  return found;
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
  const auto first_three = [&](const std::string& name) {
    auto texts = words(rank, name);
    if (texts.size() > 3) texts.resize(3);
    return texts;
  };
  if (const auto reasons = first_three("throttle"); !reasons.empty())
    add("throttled: " + joined(reasons, ", ", " and "));
  std::vector<std::string> others;
  for (const OtherProcess& process : processes(rank)) {
    others.push_back((process.pid ? "pid " + std::to_string(*process.pid) : "unknown") +
                     (process.name ? " " + *process.name : ""));
  }
  if (!others.empty()) add("also in use by " + joined(others));
  if (const auto errors = first_three("errors"); !errors.empty()) add("errors: " + joined(errors, ", ", " and "));
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
