// NCCL communicators: one per group of ranks, made when the first collective Work of that group connects, and kept for
// the later ones. All of them are known to who waits and to who ends the job.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/group.hpp"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/nccl_listener.hpp"

namespace shakedown::cuda {

/// Of one group. That of a group with patience is made and called without blocking, and gives up with Absent.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  /// Once, collective over the group.
  void connect(Group&);

  /// Errors: std::runtime_error if it was aborted.
  ncclComm_t get() const;

  /// Every call that queues something, or several in one ncclGroup. Errors: of NCCL, std::runtime_error; Absent.
  void call(const std::function<ncclResult_t(ncclComm_t)>&);

  /// A look while a kernel of it may run, because a failed peer shows only here: the kernel would wait for ever.
  /// Errors: as call; the communicator is then aborted.
  void look();

  /// The orderly end, where the group has patience for it.
  void finish();

  /// From any thread. Kernels and calls that wait inside NCCL return; later calls here throw. May take its time, and
  /// NCCL knows cases in which it hangs: whoever calls it has a way out that does not depend on it.
  void abort() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void settle(ncclResult_t);
  ncclResult_t state() const;
  void refuse_late();

  std::optional<Clock::time_point> until_;  // of a group with patience
  mutable std::mutex mutex_;                // guards what follows, never held while NCCL may block
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
};

class Communicators {
 public:
  struct Made {
    Communicator& communicator;
    bool fresh;  // just now
  };
  /// Makes it if there is none yet. Collective over the group, which must outlive this, or be left. `whole`: its ranks
  /// are those of the world, so that what NCCL says of links is about these.
  Made of(Group&, bool whole = true);

  /// The group comes to its end. Collective over it.
  void leave(Group&);

  /// Runs the first operations of their kind, in which NCCL chooses and connects, and notes how. Gives the algorithm
  /// and protocol of the last one, "RING/LL128"; empty on other ranks than 0, and where NCCL does not tell: it does in
  /// a log that somebody asked for, with NCCL_DEBUG_SUBSYS=TUNING.
  std::string first_run(const std::function<void()>& step, bool whole = true);

  /// The links that have been made so far, as far as this rank knows them.
  std::vector<NcclLink> links() const { return {links_.begin(), links_.end()}; }

  /// Waits for the event and watches the communicators meanwhile. Errors: as Communicator::look.
  void wait(cudaEvent_t);

  /// What `wait` calls at each look that finds the event not reached and the communicators well.
  void while_waiting(std::function<void()> sign) { sign_ = std::move(sign); }

  /// All of them, from any thread.
  void abort() noexcept;

 private:
  std::vector<std::shared_ptr<Communicator>> all() const;

  NcclListener listener_;
  std::function<void()> sign_ = [] {};
  std::set<NcclLink> links_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<const Group*, std::shared_ptr<Communicator>> by_group_;
  bool aborted_ = false;
};

}  // namespace shakedown::cuda
