// The telemetry of the GPUs of ranks while they worked: clocks, power, temperature, reasons for a low clock, other
// programs. It explains a slow GPU. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

class RankTelemetry {
 public:
  RankTelemetry() = default;
  /// The benchmarks must outlive it.
  explicit RankTelemetry(const Benchmarks&);

  /// Median of sm_mhz, power_w or temperature_c over the benchmarks that load the GPU; nullopt = not recorded.
  std::optional<double> value(int rank, const std::string& name) const;
  /// Median over the ranks.
  std::optional<double> typical(const std::string& name) const;

  /// The distance of the clock below the median of all ranks, as a part of that median.
  std::optional<double> clock_shortfall(int rank) const;

  /// True if heat or the supply lowered the clock, and not only the power cap that every loaded GPU reaches.
  bool held_back(int rank) const { return gpu(rank).held_back; }
  /// True if held_back() is for more than half of these ranks.
  bool most_held_back(std::size_t ranks) const;
  /// True if it draws all the power that it may in most GEMMs, and nothing else lowers its clock. A GPU whose clock a
  /// fault keeps low does not get there.
  bool power_limited(int rank) const;
  /// The same in one benchmark: a sustained load reaches the limit, bursts need not.
  bool power_limited_in(const Benchmark&, int rank) const;
  /// True if a setting limited the clock of more than half of these ranks in most rows of GEMM.
  bool most_limited_by_setting(std::size_t ranks) const;
  /// True if heat lowered the clock.
  bool hot(int rank) const { return gpu(rank).hot; }

  /// Other programs on its GPU when the run began, as far as known.
  std::vector<OtherProcess> processes(int rank) const;

  /// "1410 MHz (peers 1465), 691 W (692), 57 C (55); throttled: sw_power_cap 38 %"
  std::string text(int rank) const;

 private:
  struct Gpu {
    bool held_back = false, hot = false;
    // Rows of GEMM, and those in which it reached its power limit or the clock that was set.
    std::size_t gemm_rows = 0, capped = 0, set_rows = 0;
  };
  struct Sensor {
    std::vector<std::optional<double>> by_rank;
    std::optional<double> typical;
  };

  const Gpu& gpu(int rank) const;
  void read(const Benchmark&);
  static Sensor sensor(const std::string& name, const std::vector<const Benchmark*>&);

  std::vector<const Benchmark*> benchmarks_;  // GEMM first: it loads a GPU like nothing else
  std::vector<Gpu> gpus_;
  std::map<std::string, Sensor> sensors_;
};

/// "software power cap 38 % of the time, 1,410 of 1,980 MHz, 699 of 700 W": the reasons for a low clock, the clock,
/// errors that the GPU counted, and other programs that used it. "not throttled" if there is no reason. Empty if
/// nothing is known. Over repetitions: the median clock, the reasons of the one with the lowest clock, all errors.
std::string cause(const Benchmark&, int rank);

}  // namespace shakedown
