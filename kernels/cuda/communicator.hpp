// NCCL communicators. There is one communicator per group of ranks, created when the first collective Work of the group
// connects, and kept for later Works. All communicators are registered, so that waits can watch them and a shutdown can
// abort them.
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
#include "kernels/ops/collective.hpp"

namespace shakedown::cuda {

/// The communicator of one group. In a group with patience (a time limit for waits) it is created and called without
/// blocking, and it gives up with Absent.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  /// Creates the communicator. Called once, collectively over the group.
  void connect(Group&);

  /// Errors: std::runtime_error if the communicator was aborted.
  ncclComm_t get() const;

  /// Runs one NCCL call, or several in one ncclGroup. All calls that queue work go through this function. Errors: those
  /// of NCCL; std::runtime_error; Absent.
  void call(const std::function<ncclResult_t(ncclComm_t)>&);

  /// Checks NCCL's asynchronous error state. The check must be called while a kernel may run, because a failed peer
  /// shows only here and the kernel would wait forever. Errors: those of `call`; the communicator is then aborted.
  void look();

  /// Shuts the communicator down cleanly, if the group has patience.
  void finish();

  /// Aborts the communicator. Any thread may call it. Kernels and calls that wait inside NCCL return, and later calls
  /// throw. The call may take long, and in known cases NCCL hangs in it, so the caller needs another way to end.
  void abort() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void settle(ncclResult_t);
  ncclResult_t state() const;
  void refuse_late();

  std::optional<Clock::time_point> until_;  // set only in a group with patience
  mutable std::mutex mutex_;                // guards the members below; it is never held while NCCL may block
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
};

class Communicators {
 public:
  struct Made {
    Communicator& communicator;
    bool fresh;  // true if this call created it
  };
  /// Returns the communicator of the group, and creates it if necessary. Collective over the group, which must outlive
  /// this object or be left. `whole`: the group contains all ranks of the job, so the links that NCCL reports belong to
  /// these ranks. With Via::net, NCCL uses neither peer memory nor shared memory nor NVLS. NCCL reads these settings
  /// once, so all communicators of a process have the same `via`. Errors: Unsupported if an earlier one has another.
  Made of(Group&, bool whole = true, Via = Via::any);

  /// Releases the communicator of the group. Collective over it.
  void leave(Group&);

  /// Runs the first operations of their kind, in which NCCL chooses an algorithm and connects, and reads NCCL's log
  /// about it. Returns the algorithm and protocol of the last one, such as "RING/LL128". Returns an empty string on
  /// ranks other than 0, and if NCCL does not log its choice; it does with NCCL_DEBUG_SUBSYS=TUNING.
  std::string first_run(const std::function<void()>& step, bool whole = true);

  /// Returns the links made so far that this rank knows of; none with Via::net, because they are not the machine's
  /// usual ones.
  std::vector<NcclLink> links() const { return {links_.begin(), links_.end()}; }

  /// Returns the transports that NCCL reported with Via::net, such as "NET/IB/0/GDRDMA"; empty if it reported none.
  const std::set<std::string>& transports() const { return transports_; }

  /// Waits for the event and meanwhile watches the communicators. Errors: those of Communicator::look.
  void wait(cudaEvent_t);

  /// Sets a function that `wait` calls at each look while the event is pending and the communicators are healthy.
  void while_waiting(std::function<void()> sign) { sign_ = std::move(sign); }

  /// Aborts all communicators. Any thread may call it.
  void abort() noexcept;

 private:
  std::vector<std::shared_ptr<Communicator>> all() const;
  void settle_path(Via);

  NcclListener listener_;
  std::function<void()> sign_ = [] {};
  std::optional<Via> via_;  // unknown before the first communicator
  std::set<NcclLink> links_;
  std::set<std::string> transports_;
  mutable std::mutex mutex_;  // guards the members below
  std::map<const Group*, std::shared_ptr<Communicator>> by_group_;
  bool aborted_ = false;
};

}  // namespace shakedown::cuda
