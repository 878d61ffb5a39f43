// The times of kernels, copies and memsets from CUPTI's activity records. The library is loaded when it is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shakedown::cuda {

/// A recording of this process. Its parts are numbered from 0 and follow each other on the calling thread.
class KernelTimes {
 public:
  /// Starts to record. Returns nullptr if there is no CUPTI of the toolkit's major version, or if another profiler uses
  /// it.
  static std::unique_ptr<KernelTimes> start();

  KernelTimes() = default;
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;
  /// Stops the recording.
  ~KernelTimes();

  /// Kernels that the calls between the two launch belong to the part.
  void begin_part(std::uint64_t number);
  void end_part();

  /// Returns for each part the milliseconds of its kernels, copies and memsets. All of them must be complete. nullopt
  /// if CUPTI has lost records or has none.
  std::optional<std::vector<double>> milliseconds(std::size_t parts);
};

}  // namespace shakedown::cuda
