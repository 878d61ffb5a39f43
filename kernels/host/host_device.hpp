// The host backend: CPU cores and memory as the device of a rank. All operations are real and checked. The host backend
// measures hosts, and allows tests of the code above device.hpp on a machine without a GPU.
#pragma once

#include "kernels/device.hpp"
#include "kernels/host/team.hpp"

namespace shakedown::host {

class HostDevice final : public Device {
 public:
  explicit HostDevice(const Placement&);

  DeviceInfo info() const override { return info_; }
  double seconds(Work&, int repeats) override;

  /// Throws Unsupported if this host cannot run the operation.
  std::unique_ptr<Work> prepare(const Spec&) override;

  Team& team() { return team_; }

 private:
  void require_memory(std::size_t bytes) const;

  DeviceInfo info_;
  int local_size_;
  Team team_;
};

}  // namespace shakedown::host
