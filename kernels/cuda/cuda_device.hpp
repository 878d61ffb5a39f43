// The CUDA backend: one NVIDIA GPU as the device of a rank.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "kernels/cuda/communicator.hpp"
#include "kernels/cuda/cycles.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/device.hpp"

namespace shakedown::cuda {

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, const Placement&);

  DeviceInfo info() const override;

  /// By events on the stream. In front of a batch of local operations one more runs untimed: it hides the launch of
  /// the first, as each hides that of the next. An idle GPU would take the begin event at once and then wait some 8 us
  /// for the first launch, 1 % of a batch of a millisecond. In front of a collective one stands that leads().
  /// Calls that are on_processor() by its clock; the GPU is idle before and after.
  double seconds(Work&, int repeats) override;

  void while_waiting(std::function<void()> sign) override { communicators_.while_waiting(std::move(sign)); }
  /// Over the timed operations; of collectives over samples of half a millisecond and more.
  std::optional<ClockCount> take_clock() override { return cycles_.take(); }

  void leave(Group& group) override { communicators_.leave(group); }
  void settle() override { gpu_.free_retired(); }
  void abort() noexcept override { communicators_.abort(); }

  /// Throws Unsupported for what this GPU cannot do.
  std::unique_ptr<Work> prepare(const Spec&) override;

  /// Waits until the driver has cleared what the Works before the one that is being prepared gave back.
  void wait_until_cleared() const;

  Gpu& gpu() { return gpu_; }
  Communicators& communicators() { return communicators_; }

 private:
  Gpu gpu_;
  DeviceInfo info_;
  Communicators communicators_;
  Event begin_ = make_event(), end_ = make_event();
  CycleCounter cycles_;
  std::pair<const Work*, int> timed_;                // what, and how often, the last time
  bool long_ = false;                                // and whether a sample of it is
  std::size_t prepared_bytes_ = 0;                   // of the last Work
  std::chrono::steady_clock::time_point cleared_{};  // when the driver has cleared what the Works before gave back
};

/// Which of the visible devices a rank takes. Errors: std::runtime_error if there are too few; the text says what to
/// do.
int ordinal_for(const Placement&, int visible);

}  // namespace shakedown::cuda
