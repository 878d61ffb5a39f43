// The telemetry of the GPUs of ranks during the measurement: clocks, power, temperature, throttle reasons, other
// programs. It explains slow GPUs. Pure.
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

  /// Returns the median of sm_mhz, power_w or temperature_c over the benchmarks that load the GPU; nullopt if not
  /// recorded.
  std::optional<double> value(int rank, const std::string& name) const;
  /// Returns the median over the ranks.
  std::optional<double> typical(const std::string& name) const;

  /// Returns the relative distance of the clock below the median of all ranks.
  std::optional<double> clock_shortfall(int rank) const;

  /// True if heat or the power supply lowered the clock, and not only the power cap that every loaded GPU reaches.
  bool held_back(int rank) const { return gpu(rank).held_back; }
  /// True if held_back() holds for more than half of these ranks.
  bool most_held_back(std::size_t ranks) const;
  /// True if the GPU reaches its power limit in most GEMMs, and nothing else lowers its clock. A GPU with a faulty
  /// clock does not reach it.
  bool power_limited(int rank) const;
  /// Returns the same for one benchmark: a sustained load reaches the limit, bursts may not.
  bool power_limited_in(const Benchmark&, int rank) const;
  /// True if a setting limited the clock of more than half of these ranks in most rows of GEMM.
  bool most_limited_by_setting(std::size_t ranks) const;
  /// True if heat lowered the clock.
  bool hot(int rank) const { return gpu(rank).hot; }

  /// Returns other programs on the GPU at the start of the run, if known.
  std::vector<OtherProcess> processes(int rank) const;

  /// "1410 MHz (peers 1465), 691 W (692), 57 C (55); throttled: sw_power_cap 38 %"
  std::string text(int rank) const;

 private:
  struct Gpu {
    bool held_back = false, hot = false;
    // Rows of GEMM, and those at the power limit or at a set clock.
    std::size_t gemm_rows = 0, capped = 0, set_rows = 0;
  };
  struct Sensor {
    std::vector<std::optional<double>> by_rank;
    std::optional<double> typical;
  };

  const Gpu& gpu(int rank) const;
  void read(const Benchmark&);
  static Sensor sensor(const std::string& name, const std::vector<const Benchmark*>&);

  std::vector<const Benchmark*> benchmarks_;  // GEMM first, because it loads a GPU most
  std::vector<Gpu> gpus_;
  std::map<std::string, Sensor> sensors_;
};

/// Returns "software power cap 38 % of the time, 1,410 of 1,980 MHz, 699 of 700 W": throttle reasons, clock, GPU
/// errors, and other programs. "not throttled" without a reason; empty if nothing is known. Over repetitions: the
/// median clock, the reasons of the lowest clock, all errors.
std::string cause(const Benchmark&, int rank);

}  // namespace shakedown
