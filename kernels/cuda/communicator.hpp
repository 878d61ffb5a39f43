// The one NCCL communicator of this process, over all ranks. Made when the first collective Work connects, kept for the
// later ones.
#pragma once

#include <mutex>

#include "kernels/cuda/handle.hpp"
#include "kernels/peers.hpp"

namespace shakedown::cuda {

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  /// Makes the communicator if there is none yet. Collective over `world`, always the same group.
  void connect(Peers& world);

  /// Errors: std::runtime_error if it was aborted.
  ncclComm_t get() const;

  /// Waits for the event and watches the communicator meanwhile, because a failed peer shows only there: the kernel on
  /// this GPU would wait for ever. Errors: std::runtime_error with NCCL's text; the communicator is then aborted.
  void wait(cudaEvent_t);

  /// From any thread. Kernels and calls that wait inside NCCL return; later calls here throw. May take its time, and
  /// NCCL knows cases in which it hangs: whoever calls it has a way out that does not depend on it.
  void abort() noexcept;

 private:
  ncclResult_t state() const;

  mutable std::mutex mutex_;  // guards the members, never held while NCCL may block
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
};

}  // namespace shakedown::cuda
