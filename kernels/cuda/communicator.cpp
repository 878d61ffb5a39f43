// Life of the NCCL communicator.
#include "kernels/cuda/communicator.hpp"

#include <chrono>
#include <cstddef>
#include <exception>
#include <span>
#include <stdexcept>
#include <utility>

namespace shakedown::cuda {

namespace {

/// How often NCCL's state is looked at. Times come from events, so that the looking does not show in them.
constexpr auto look_every = std::chrono::milliseconds(1);

}  // namespace

/// While an exception passes, the peers may never come to the end of the job, and an orderly end would wait for them.
Communicator::~Communicator() {
  if (std::uncaught_exceptions() > 0) {
    abort();
  } else if (comm_ != nullptr) {
    static_cast<void>(ncclCommDestroy(comm_));
  }
}

/// A blocking communicator: with a non-blocking one every call starts a thread (NCCL 2.28 and later, group.cc), which
/// would be most of the latency of a small message. A hang in here is ended by the watchdog, with the process.
bool Communicator::connect(Group& world) {
  {
    const std::lock_guard lock(mutex_);
    if (comm_ != nullptr || aborted_) return false;
  }
  ncclComm_t comm = nullptr;
  note(listener_.during([&] {
    ncclUniqueId id{};
    if (world.rank() == 0) check(ncclGetUniqueId(&id));
    world.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    check(ncclCommInitRank(&comm, world.size(), id, world.rank()));
  }));
  const std::lock_guard lock(mutex_);
  comm_ = comm;
  return true;
}

ncclComm_t Communicator::get() const {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) throw std::runtime_error("the NCCL communicator is not connected, or was aborted");
  return comm_;
}

std::string Communicator::first_run(const std::function<void()>& step) {
  const auto log = listener_.during(step);
  note(log);
  return log.algorithm;
}

void Communicator::note(const NcclLog& log) { links_.insert(log.links.begin(), log.links.end()); }

void Communicator::wait(cudaEvent_t event) {
  using Clock = std::chrono::steady_clock;
  auto next_look = Clock::now() + look_every;
  auto progress = cudaEventQuery(event);
  for (; progress == cudaErrorNotReady; progress = cudaEventQuery(event)) {
    if (Clock::now() < next_look) continue;
    static_cast<void>(get());
    if (const auto now = state(); now != ncclSuccess && now != ncclInProgress) {
      abort();  // before memory is freed, which waits for the kernel that waits for the peer
      check(now);
    }
    sign_();
    next_look = Clock::now() + look_every;
  }
  static_cast<void>(cudaGetLastError());  // "not ready" is kept as the last error
  check(progress);
}

void Communicator::abort() noexcept {
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
    aborted_ = true;
  }
  if (comm != nullptr) static_cast<void>(ncclCommAbort(comm));
}

ncclResult_t Communicator::state() const {
  const std::lock_guard lock(mutex_);
  ncclResult_t state = ncclSuccess;
  if (comm_ != nullptr) check(ncclCommGetAsyncError(comm_, &state));
  return state;
}

}  // namespace shakedown::cuda
