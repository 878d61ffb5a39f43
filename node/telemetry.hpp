// What a GPU does while it is measured: clocks, power, heat, what holds its clocks down, and the errors that it counts.
// A thread samples it; nothing is dropped, and what the driver does not tell stays unknown.
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

/// One look at a GPU.
struct GpuSample {
  std::optional<double> sm_mhz, power_w, temperature_c;
  std::optional<std::uint64_t> reasons;     // bits of ClockReason
  std::optional<double> mean_power_w = {};  // over a second
};
GpuSample sample(const NvmlGpu&);

/// A series of samples.
struct GpuSummary {
  std::size_t samples = 0;
  std::optional<double> sm_mhz;         // mean
  std::optional<double> cycles;         // of one operation, where the device counts them
  std::optional<double> power_w;        // mean
  std::optional<double> temperature_c;  // highest
  std::optional<double> throttled;      // fraction of the samples with a reason of power or heat
  Throttle throttle;                    // of these samples; empty if nothing held the clock down
};

template <class Archive>
void members(Archive& archive, GpuSummary& gpu) {
  archive("samples", gpu.samples)("sm_mhz", gpu.sm_mhz)("cycles", gpu.cycles);
  archive("power_w", gpu.power_w)("temperature_c", gpu.temperature_c)("throttled", gpu.throttled)("throttle",
                                                                                                  gpu.throttle);
}

/// Means, extremes and fractions; a field that no sample has stays unknown.
GpuSummary summary(const std::vector<GpuSample>&);

/// Counters of errors; those that the driver does not tell are left out.
ErrorCounts error_counts(const NvmlGpu&, unsigned links);

/// By how much the counters that are in both have grown; those that have not are left out.
ErrorCounts grown(const ErrorCounts& before, const ErrorCounts& after);

/// Samples one GPU between begin and end, and counts its errors now and then, from a thread of its own.
class Telemetry {
 public:
  static constexpr std::chrono::milliseconds usual_interval{10};

  /// The driver answers from copies that it renews every 100 ms (580.159 on H200, looked at every 2 ms): one of the
  /// power of the moment, one of the rest, in which the mean power changes each time. What it says in a series before
  /// either this time has passed or the copy has changed is of the time before, and counts as unknown.
  static constexpr std::chrono::milliseconds usual_settling{100};

  explicit Telemetry(NvmlGpu, std::chrono::milliseconds interval = usual_interval,
                     std::chrono::milliseconds settling = usual_settling);
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;
  ~Telemetry();

  /// Starts to sample, once counters that are being read are read: nothing is measured meanwhile.
  void begin();

  /// Stops, and tells what was sampled since begin.
  GpuSummary end();

  /// Has the thread read the counters of errors, and does not wait: it takes some 70 ms where several ranks read those
  /// of 18 links each. Not between begin and end.
  void count();

  /// What was counted, XIDs too, since the last call, or the beginning, until the last count; counts if nobody has
  /// since. Waits until it is known.
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
  std::uint64_t series_ = 0;  // one more at each begin and end; odd: sampling
  // Counts that were ordered, made and told; the first is made at the beginning.
  std::uint64_t to_count_ = 1, counted_ = 0, told_ = 1;
  bool leave_ = false;
  std::vector<GpuSample> samples_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace shakedown
