// Who measures on a GPU of this machine: two at once would each measure what the other leaves.
#pragma once

#include <chrono>
#include <set>
#include <string>

namespace shakedown {

/// Holds a GPU, by its UUID, for as long as it lives: an abstract Unix socket (unix(7)), which any user may ask for and
/// which the kernel closes with its process, however that ends. Seen by all processes of a network namespace,
/// containers that share it among them; others are found by NVML's list of processes, in pre-flight.
class GpuClaim {
 public:
  GpuClaim() = default;
  /// Asks for as long as `patience`: who has just been ended may still be on its way out. A GPU that one of `friends`
  /// holds counts as free.
  GpuClaim(const std::string& gpu, const std::set<int>& friends, std::chrono::milliseconds patience);
  GpuClaim(GpuClaim&&) noexcept;
  GpuClaim& operator=(GpuClaim&&) noexcept;
  ~GpuClaim();

  /// Who has it: "GPU-4f2a is in use by another measurement: process 4711 (bench_all) of user 1000, for 35 s"; empty:
  /// nobody else.
  const std::string& refusal() const { return refusal_; }

 private:
  int socket_ = -1;
  std::string refusal_;
};

}  // namespace shakedown
