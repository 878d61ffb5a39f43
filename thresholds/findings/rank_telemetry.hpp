// Telemetry of the GPUs during the measurement: clocks, power, temperature, throttle reasons, other programs. Telemetry
// explains why a GPU is slow. The functions are pure.
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
  /// The benchmarks must outlive the object.
  explicit RankTelemetry(const Benchmarks&);

  /// Returns the median of sm_mhz, power_w or temperature_c over the benchmarks that load the GPU; nullopt if it was
  /// not recorded.
  std::optional<double> value(int rank, const std::string& name) const;
  /// Returns the median of this value over the ranks.
  std::optional<double> typical(const std::string& name) const;

  /// Returns how far the clock is below the median of all ranks, relative to it.
  std::optional<double> clock_shortfall(int rank) const;

  /// True if heat or the power supply lowered the clock. The power cap does not count, because every loaded GPU reaches
  /// it.
  bool held_back(int rank) const { return gpu(rank).held_back; }
  /// True if held_back() holds for more than half of these ranks.
  bool most_held_back(std::size_t ranks) const;
  /// True if the GPU reaches its power limit in most GEMMs, and nothing else lowers its clock. A GPU with a faulty
  /// clock does not reach the power limit.
  bool power_limited(int rank) const;
  /// Like power_limited(), for one benchmark: a sustained load reaches the limit, and a burst may not.
  bool power_limited_in(const Benchmark&, int rank) const;
  /// True if, in most rows of GEMM, a setting limits the clock of more than half of these ranks.
  bool most_limited_by_setting(std::size_t ranks) const;
  /// True if heat lowered the clock.
  bool hot(int rank) const { return gpu(rank).hot; }

  /// Returns the other programs that used the GPU when the run began; empty if unknown.
  std::vector<OtherProcess> processes(int rank) const;

  /// Returns "1410 MHz (peers 1465), 691 W (692), 57 C (55); throttled: sw_power_cap 38 %".
  std::string text(int rank) const;

 private:
  struct Gpu {
    bool held_back = false, hot = false;
    // Numbers of GEMM rows: all, those at the power limit, and those at a clock that a setting limits.
    std::size_t gemm_rows = 0, capped = 0, set_rows = 0;
  };
  struct Sensor {
    std::vector<std::optional<double>> by_rank;
    std::optional<double> typical;
  };

  const Gpu& gpu(int rank) const;
  void read(const Benchmark&);
  static Sensor sensor(const std::string& name, const std::vector<const Benchmark*>&);

  std::vector<const Benchmark*> benchmarks_;  // GEMM is first, because it loads a GPU most
  std::vector<Gpu> gpus_;
  std::map<std::string, Sensor> sensors_;
};

/// Returns throttle reasons, clock, GPU errors and other programs: "software power cap 38 % of the time, 1,410 of 1,980
/// MHz, 699 of 700 W". Returns "not throttled" if there is no reason, and an empty text if nothing is known. Over
/// several repetitions, uses the median clock, the reasons at the lowest clock, and all errors.
std::string cause(const Benchmark&, int rank);

}  // namespace shakedown
