// What ranks said about themselves while they worked: clocks, watts, degrees, what held a clock down, who else was
// there. Used to explain a slow GPU. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

class RankTelemetry {
 public:
  /// The benchmarks must outlive it.
  explicit RankTelemetry(const Benchmarks&);

  /// Median over the benchmarks that load the GPU; nullopt = not recorded.
  std::optional<double> value(int rank, const std::string& name) const;
  /// Median over the ranks.
  std::optional<double> typical(const std::string& name) const;

  /// How far the clock is below the median of all ranks, as a part of that.
  std::optional<double> clock_shortfall(int rank) const;

  /// By heat or the supply, and not by the power cap that every loaded GPU sits at.
  bool held_back(int rank) const;
  /// It draws all the power that it may in most products, and nothing else holds it back. A GPU whose clock a fault
  /// keeps low does not get there.
  bool power_limited(int rank) const;
  /// The same in one benchmark, whatever its other products do: a sustained load reaches the limit, bursts need not.
  bool power_limited_in(const Benchmark&, int rank) const;
  /// By heat.
  bool hot(int rank) const;

  /// Other programs that had its GPU when the run began, as far as that is known.
  std::vector<OtherProcess> processes(int rank) const;

  /// "1410 MHz (peers 1465), 691 W (692), 57 C (55); throttled: sw_power_cap 38 %"
  std::string text(int rank) const;

 private:
  bool any_reason(int rank, bool (*is_such)(std::string_view reason)) const;
  std::vector<const Row*> rows(int rank) const;
  const std::vector<std::optional<double>>& column(const std::string& name) const;

  std::vector<const Benchmark*> loaded_, others_;
  mutable std::map<std::string, std::vector<std::optional<double>>> columns_;
  mutable std::map<std::string, std::optional<double>> typical_;
};

/// "software power cap 38 % of the time, 1,410 of 1,980 MHz, 699 of 700 W"; what held the clock down first, then the
/// clock, errors that the GPU counted, and others who used it. A GPU that nothing held down is said to be so: then the
/// cause lies elsewhere. Empty where nothing is known. Over repetitions: the clock's median, the most throttled one's
/// reasons, all errors.
std::string cause(const Benchmark&, int rank);

}  // namespace shakedown
