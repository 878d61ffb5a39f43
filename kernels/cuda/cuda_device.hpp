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

  /// Times `repeats` operations with events on the stream. One more local operation runs untimed before the batch. It
  /// hides the launch of the first timed operation, as each operation hides the launch of the next. An idle GPU would
  /// record the begin event at once and then wait some 8 us for the first launch, 1 % of a batch of a millisecond.
  /// Before a collective, one untimed operation runs if the collective needs a lead-in. Operations that are
  /// on_processor() are timed by the host's clock; the GPU is idle before and after.
  double seconds(Work&, int repeats) override;

  void while_waiting(std::function<void()> sign) override { communicators_.while_waiting(std::move(sign)); }
  void while_working(std::function<void()> sign) override { gpu_.while_working(std::move(sign)); }
  /// Returns the clock of the timed operations; for collectives, only of samples of at least half a millisecond.
  std::optional<ClockCount> take_clock() override { return cycles_.take(); }

  void leave(Group& group) override { communicators_.leave(group); }
  void settle() override { gpu_.free_retired(); }
  void abort() noexcept override { communicators_.abort(); }

  /// Throws Unsupported if this GPU cannot run the operation.
  std::unique_ptr<Work> prepare(const Spec&) override;

  /// Waits until the driver has cleared the memory that earlier Works freed.
  void wait_until_cleared() const;

  Gpu& gpu() { return gpu_; }
  Communicators& communicators() { return communicators_; }

 private:
  Gpu gpu_;
  DeviceInfo info_;
  Communicators communicators_;
  Event begin_ = make_event(), end_ = make_event();
  CycleCounter cycles_;
  std::pair<const Work*, int> timed_;                // the last timed Work and its number of repeats
  bool long_ = false;                                // true if a sample of this Work is long enough to count cycles
  std::size_t prepared_bytes_ = 0;                   // memory footprint of the last Work
  std::chrono::steady_clock::time_point cleared_{};  // when the driver will have cleared the memory freed by earlier
                                                     // Works
};

/// Returns the index of the visible device that a rank uses. Errors: std::runtime_error if there are too few devices;
/// the text says what to do.
int ordinal_for(const Placement&, int visible);

}  // namespace shakedown::cuda
