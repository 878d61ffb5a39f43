// Samples a GPU while it is measured: clocks, power, temperature, reasons for lower clocks, and error counters. A
// thread takes the samples. No sample is dropped, and values that the driver does not report are unknown.
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
  std::optional<std::uint64_t> reasons;     // bits of ClockReason
  std::optional<double> mean_power_w = {};  // over a second
};
GpuSample sample(const NvmlGpu&);

/// Summary of a series of samples.
struct GpuSummary {
  std::size_t samples = 0;
  std::optional<double> sm_mhz;         // mean
  std::optional<double> cycles;         // per operation, if the device counts them
  std::optional<double> power_w;        // mean
  std::optional<double> temperature_c;  // highest
  std::optional<double> throttled;      // fraction of the samples with a reason of power or heat
  Throttle throttle;                    // for these samples; empty if nothing limited the clock
};

template <class Archive>
void members(Archive& archive, GpuSummary& gpu) {
  archive("samples", gpu.samples)("sm_mhz", gpu.sm_mhz)("cycles", gpu.cycles);
  archive("power_w", gpu.power_w)("temperature_c", gpu.temperature_c)("throttled", gpu.throttled)("throttle",
                                                                                                  gpu.throttle);
}

/// Returns means, extremes and fractions; a field that no sample has is unknown.
GpuSummary summary(const std::vector<GpuSample>&);

/// Returns the error counters; omits those that the driver does not report.
ErrorCounts error_counts(const NvmlGpu&, unsigned links);

/// Returns the increase of the counters that are in both; omits the others.
ErrorCounts grown(const ErrorCounts& before, const ErrorCounts& after);

/// Samples one GPU between begin and end, and counts its errors on request, in a thread of its own.
class Telemetry {
 public:
  static constexpr std::chrono::milliseconds usual_interval{10};

  /// Time until cached values of the driver are fresh. The driver returns copies that it updates every 100 ms (580.159
  /// on H200, sampled every 2 ms): one copy for the current power, and one for the other values, in which the mean
  /// power changes each time. A value is unknown until this time has passed in a series or its copy has changed, since
  /// it may date from before the series.
  static constexpr std::chrono::milliseconds usual_settling{100};

  explicit Telemetry(NvmlGpu, std::chrono::milliseconds interval = usual_interval,
                     std::chrono::milliseconds settling = usual_settling);
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;
  ~Telemetry();

  /// Starts to sample, after any pending read of the counters is complete: such a read would disturb the measurement.
  void begin();

  /// Stops, and returns the summary of the samples since begin.
  GpuSummary end();

  /// Starts a read of the error counters in the thread and does not wait: it takes some 70 ms if several ranks read
  /// those of 18 links each. Not allowed between begin and end.
  void count();

  /// Returns the errors, including XIDs, between the last call (or the beginning) and the last count. Counts first if
  /// there was no count since then. Waits for the result.
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
  std::uint64_t series_ = 0;  // incremented by begin and end; odd: sampling
  // Numbers of counts requested, completed and returned; the first count is made at the beginning.
  std::uint64_t to_count_ = 1, counted_ = 0, told_ = 1;
  bool leave_ = false;
  std::vector<GpuSample> samples_;
  std::thread thread_;  // last member, because it uses the others
};

}  // namespace shakedown
