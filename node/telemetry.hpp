// Samples a GPU while it is measured: clocks, power, temperature, reasons for lower clocks, and error counters. A
// thread takes the samples and keeps all of them. Values that the driver does not report are unknown.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/gpu_health.hpp"
#include "node/nvml.hpp"

namespace shakedown {

/// One sample of a GPU.
struct GpuSample {
  std::optional<double> sm_mhz, power_w, temperature_c;
  std::optional<std::uint64_t> reasons;                                   // a set of bits of ClockReason
  std::optional<double> mean_power_w = {};                                // mean over a second
  std::optional<double> energy_j = {};                                    // energy counter
  double seconds = 0;                                                     // time of the sample, from any start
  std::optional<double> gpu_busy_percent = {}, memory_busy_percent = {};  // see Utilization
};
GpuSample sample(const NvmlGpu&);

/// The driver renews the energy counter every 20 to 100 ms, so that it is exact to 3 % or better after this time.
inline constexpr double energy_seconds = 3;

/// The driver's longest sampling period of the utilization. A value in this time may be from before the series.
inline constexpr double utilization_seconds = 1;

/// A summary of the samples of a series.
struct GpuSummary {
  std::size_t samples = 0;
  std::optional<double> sm_mhz;         // mean
  std::optional<double> cycles;         // clock cycles per operation, if the device counts them
  std::optional<double> power_w;        // mean
  std::optional<double> drawn_w;        // mean by the energy counter, in a series of at least energy_seconds
  std::optional<double> temperature_c;  // highest
  std::optional<double> throttled;      // fraction of the samples with a limit of power or heat
  Throttle throttle;                    // fraction by reason; empty if nothing limited the clock
  /// Mean percentages of the time in which a kernel ran, and in which the memory was read or written; only of a series
  /// longer than utilization_seconds.
  std::optional<double> gpu_busy_percent, memory_busy_percent;
};

template <class Archive>
void members(Archive& archive, GpuSummary& gpu) {
  archive("samples", gpu.samples)("sm_mhz", gpu.sm_mhz)("cycles", gpu.cycles);
  archive("power_w", gpu.power_w)("drawn_w", gpu.drawn_w)("temperature_c", gpu.temperature_c);
  archive("throttled", gpu.throttled)("throttle", gpu.throttle);
  archive("gpu_busy_percent", gpu.gpu_busy_percent)("memory_busy_percent", gpu.memory_busy_percent);
}

/// Returns means, extremes and fractions of the samples. A field is unknown if no sample has it.
GpuSummary summary(const std::vector<GpuSample>&);

/// Returns the names of the reasons, as in Throttle (base/gpu_health.hpp). The set is one of bits of ClockReason.
std::vector<std::string> clock_limits(std::uint64_t reasons);

/// Returns the error counters. Omits those that the driver does not report.
ErrorCounts error_counts(const NvmlGpu&, unsigned links);

/// Returns how much the counters have grown. Omits counters that are not in both arguments.
ErrorCounts grown(const ErrorCounts& before, const ErrorCounts& after);

/// Samples one GPU between begin() and end(), and reads its error counters on request. Sampling and reading run in a
/// thread of the object.
class Telemetry {
 public:
  static constexpr std::chrono::milliseconds usual_interval{10};

  /// Time after which values that the driver has cached are fresh. The driver returns copies that it updates every 100
  /// ms (580.159 on H200, sampled every 2 ms). There is one copy for the current power, and one for the other values;
  /// in the latter, the mean power changes with each update. In a series, a value is unknown until this time has passed
  /// or its copy has changed, because it may be from before the series.
  static constexpr std::chrono::milliseconds usual_settling{100};

  explicit Telemetry(NvmlGpu, std::chrono::milliseconds interval = usual_interval,
                     std::chrono::milliseconds settling = usual_settling);
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;
  ~Telemetry();

  /// Starts to sample. First waits for a read of the error counters to end, because it would disturb the measurement.
  void begin();

  /// Stops, and returns the summary of the samples since begin.
  GpuSummary end();

  /// Starts a read of the error counters in the thread, and does not wait for it. The read takes about 70 ms if several
  /// ranks each read the counters of 18 links. Not allowed between begin and end.
  void count();

  /// Returns the errors, including XIDs, from the previous call (or the construction) to the last count(). If count()
  /// was not called since then, calls it. Waits for the result.
  ErrorCounts errors();

 private:
  void watch();
  void sample_series(std::unique_lock<std::mutex>&);
  GpuSample fresh_sample(const GpuSample& first, bool settled) const;

  const NvmlGpu gpu_;
  const unsigned links_;
  const std::chrono::milliseconds interval_, settling_;
  XidWatch xids_;
  ErrorCounts before_, now_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t series_ = 0;  // begin and end each add 1; an odd value means that a series runs
  // Numbers of counts that were requested, completed and returned. The first count is made at the beginning.
  std::uint64_t to_count_ = 1, counted_ = 0, told_ = 1;
  bool leave_ = false;
  std::vector<GpuSample> samples_;
  std::thread thread_;  // last member, because it uses the others
};

}  // namespace shakedown
