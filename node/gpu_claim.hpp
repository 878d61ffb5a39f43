// Claims a GPU of this machine for one measurement. Two measurements at once would each get only a part of its
// capacity.
#pragma once

#include <chrono>
#include <set>
#include <string>

namespace shakedown {

/// Holds a GPU, identified by its UUID, during the lifetime of the object. The lock is an abstract Unix socket
/// (unix(7)), which any user can create and which the kernel closes when the process ends in any way. All processes in
/// the same network namespace see it, also those in containers that share the namespace. Pre-flight finds other
/// processes in NVML's list.
class GpuClaim {
 public:
  GpuClaim() = default;
  /// Retries for up to `patience`, because a process that was ended a moment ago may still be exiting. A GPU that one
  /// of the processes `friends` holds counts as free.
  GpuClaim(const std::string& gpu, const std::set<int>& friends, std::chrono::milliseconds patience);
  GpuClaim(GpuClaim&&) noexcept;
  GpuClaim& operator=(GpuClaim&&) noexcept;
  ~GpuClaim();

  /// Returns which other process holds the GPU: "GPU-4f2a is in use by another measurement: process 4711 (bench_all) of
  /// user 1000, for 35 s". Empty if there is none.
  const std::string& refusal() const { return refusal_; }

 private:
  int socket_ = -1;
  std::string refusal_;
};

}  // namespace shakedown
