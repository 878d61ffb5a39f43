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

  std::unique_ptr<Work> prepare(const Spec&) override;

  Team& team() { return team_; }

 private:
  void require_memory(std::size_t bytes) const;

  DeviceInfo info_;
  int local_size_;
  Team team_;
};

// One file per operation. Each throws Unsupported for what it cannot do.
std::unique_ptr<Work> make(const GemmSpec&, HostDevice&);
std::unique_ptr<Work> make(const HbmSpec&, HostDevice&);
std::unique_ptr<Work> make(const MemoryLatencySpec&, HostDevice&);
std::unique_ptr<Work> make(const MemoryTestSpec&, HostDevice&);
std::unique_ptr<Work> make(const PeerCopySpec&, HostDevice&);
std::unique_ptr<Work> make(const PeerShiftSpec&, HostDevice&);
std::unique_ptr<Work> make(const PeerLatencySpec&, HostDevice&);
std::unique_ptr<Work> make(const PeerLatencyShiftSpec&, HostDevice&);
std::unique_ptr<Work> make(const PcieSpec&, HostDevice&);
std::unique_ptr<Work> make(const CollectiveSpec&, HostDevice&);
std::unique_ptr<Work> make(const LoraStepSpec&, HostDevice&);
std::unique_ptr<Work> make(const TrainStepSpec&, HostDevice&);
std::unique_ptr<Work> make(const CheckpointSpec&, HostDevice&);

}  // namespace shakedown::host
