// The one NCCL communicator of this process, over all ranks. Made when the first collective Work connects, kept for the
// later ones.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/group.hpp"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/nccl_listener.hpp"

namespace shakedown::cuda {

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  /// Makes the communicator if there is none yet, and says whether it did. Collective over `world`, always the same
  /// group.
  bool connect(Group& world);

  /// Errors: std::runtime_error if it was aborted.
  ncclComm_t get() const;

  /// Runs the first operations of their kind, in which NCCL chooses and connects, and notes how. Gives the algorithm
  /// and protocol of the last one, "RING/LL128"; empty on other ranks than 0, and where NCCL does not tell: it does in
  /// a log that somebody asked for, with NCCL_DEBUG_SUBSYS=TUNING.
  std::string first_run(const std::function<void()>& step);

  /// The links that have been made so far, as far as this rank knows them.
  std::vector<NcclLink> links() const { return {links_.begin(), links_.end()}; }

  /// Waits for the event and watches the communicator meanwhile, because a failed peer shows only there: the kernel on
  /// this GPU would wait for ever. Errors: std::runtime_error with NCCL's text; the communicator is then aborted.
  void wait(cudaEvent_t);

  /// What `wait` calls at each look that finds the event not reached and the communicator well.
  void while_waiting(std::function<void()> sign) { sign_ = std::move(sign); }

  /// From any thread. Kernels and calls that wait inside NCCL return; later calls here throw. May take its time, and
  /// NCCL knows cases in which it hangs: whoever calls it has a way out that does not depend on it.
  void abort() noexcept;

 private:
  ncclResult_t state() const;
  void note(const NcclLog&);

  NcclListener listener_;
  std::function<void()> sign_ = [] {};
  std::set<NcclLink> links_;
  mutable std::mutex mutex_;  // guards what follows, never held while NCCL may block
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
};

}  // namespace shakedown::cuda
