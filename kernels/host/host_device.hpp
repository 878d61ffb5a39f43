// The host backend: CPU cores and memory as the device of a rank. All operations are real and checked; it measures
// hosts and lets everything above the seam be tested on a machine without a GPU.
#pragma once

#include "kernels/device.hpp"
#include "kernels/host/team.hpp"

namespace shakedown::host {

class HostDevice final : public Device {
 public:
  explicit HostDevice(const Placement&);

  DeviceInfo info() const override { return info_; }
  double seconds(Work&, int repeats) override;

  using Device::prepare;  // what this backend does not do says so

  std::unique_ptr<Work> prepare(const GemmSpec&) override;
  std::unique_ptr<Work> prepare(const HbmSpec&) override;
  std::unique_ptr<Work> prepare(const MemoryTestSpec&) override;
  std::unique_ptr<Work> prepare(const PeerCopySpec&) override;
  std::unique_ptr<Work> prepare(const PeerShiftSpec&) override;
  std::unique_ptr<Work> prepare(const PeerLatencySpec&) override;
  std::unique_ptr<Work> prepare(const AllReduceSpec&) override;
  std::unique_ptr<Work> prepare(const CollectiveSpec&) override;
  std::unique_ptr<Work> prepare(const LoraStepSpec&) override;

 private:
  void require_memory(std::size_t bytes) const;

  DeviceInfo info_;
  int local_size_;
  Team team_;
};

// One file per operation. Each throws Unsupported for what it cannot do.
std::unique_ptr<Work> make_gemm(const GemmSpec&, int threads);
std::unique_ptr<Work> make_hbm(const HbmSpec&, Team&);
std::unique_ptr<Work> make_memory_test(const MemoryTestSpec&, Team&);
std::unique_ptr<Work> make_peer_copy(const PeerCopySpec&, Team&);
std::unique_ptr<Work> make_peer_shift(const PeerShiftSpec&, Team&);
std::unique_ptr<Work> make_peer_latency(const PeerLatencySpec&);
std::unique_ptr<Work> make_allreduce(const AllReduceSpec&);
std::unique_ptr<Work> make_collective(const CollectiveSpec&);
std::unique_ptr<Work> make_lora_step(const LoraStepSpec&, Team&, const std::string& device);

}  // namespace shakedown::host
