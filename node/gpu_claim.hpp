// Claims a GPU of this machine for one measurement: two at once would each measure the remaining capacity.
#pragma once

#include <chrono>
#include <set>
#include <string>

namespace shakedown {

/// Holds a GPU, identified by its UUID, for the lifetime of the object. The lock is an abstract Unix socket (unix(7))
/// that any user can create. The kernel closes it when the process ends in any way. It is visible to all processes of a
/// network namespace, including containers that share it. NVML's list of processes reveals others in pre-flight.
class GpuClaim {
 public:
  GpuClaim() = default;
  /// Retries for up to `patience`, because a process that was just ended may still be exiting. A GPU held by one of
  /// `friends` counts as free.
  GpuClaim(const std::string& gpu, const std::set<int>& friends, std::chrono::milliseconds patience);
  GpuClaim(GpuClaim&&) noexcept;
  GpuClaim& operator=(GpuClaim&&) noexcept;
  ~GpuClaim();

  /// Returns the other holder: "GPU-4f2a is in use by another measurement: process 4711 (bench_all) of user 1000, for
  /// 35 s"; empty if there is none.
  const std::string& refusal() const { return refusal_; }

 private:
  int socket_ = -1;
  std::string refusal_;
};

}  // namespace shakedown
