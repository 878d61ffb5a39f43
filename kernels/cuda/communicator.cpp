// Lifetime of the NCCL communicators.
#include "kernels/cuda/communicator.hpp"

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

namespace shakedown::cuda {

namespace {

/// Interval between queries of NCCL's state. The queries do not affect the timings, which come from events.
constexpr auto look_every = std::chrono::milliseconds(1);

}  // namespace

/// Aborts while an exception propagates: the peers may never finish, and an orderly shutdown would wait for them.
Communicator::~Communicator() {
  if (std::uncaught_exceptions() > 0 || until_) {
    abort();
  } else if (comm_ != nullptr) {
    static_cast<void>(ncclCommDestroy(comm_));
  }
}

/// Creates a blocking communicator. With a non-blocking communicator, every call starts a thread (NCCL 2.28 and later,
/// group.cc), which would dominate the latency of small messages. If this call hangs, the watchdog ends the process. In
/// a group with patience the communicator is non-blocking: the loss of a rank must not end the process, and its
/// messages are large.
void Communicator::connect(Group& group) {
  const auto patience = group.patience();
  if (patience)
    until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*patience));
  ncclUniqueId id{};
  if (group.rank() == 0) check(ncclGetUniqueId(&id));
  group.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (patience) config.blocking = 0;
  ncclComm_t comm = nullptr;
  const auto result = ncclCommInitRankConfig(&comm, group.size(), id, group.rank(), &config);
  {
    const std::lock_guard lock(mutex_);
    comm_ = comm;
  }
  settle(result);
}

ncclComm_t Communicator::get() const {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) throw std::runtime_error("the NCCL communicator is not connected, or was aborted");
  return comm_;
}

void Communicator::call(const std::function<ncclResult_t(ncclComm_t)>& step) { settle(step(get())); }

void Communicator::look() {
  static_cast<void>(get());
  refuse_late();
  const auto now = state();
  if (now == ncclSuccess || now == ncclInProgress) return;
  abort();  // before memory is freed: freeing would wait for the kernel, which waits for the peer
  check(now);
}

/// Waits until NCCL has finished the call. The result of a blocking communicator is already final.
void Communicator::settle(ncclResult_t result) {
  while (result == ncclInProgress) {
    refuse_late();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    result = state();
  }
  if (result != ncclSuccess && until_) abort();
  check(result);
}

void Communicator::refuse_late() {
  if (!until_ || Clock::now() <= *until_) return;
  abort();
  throw Absent("NCCL: the partner did not answer in time");
}

void Communicator::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (!until_ || comm_ == nullptr) return;
  }
  call([](ncclComm_t comm) { return ncclCommFinalize(comm); });
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) check(ncclCommDestroy(comm));
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

/// Sets the path of all communicators of this process. The settings remain set, because NCCL reads NCCL_SHM_DISABLE at
/// its first connection, which may be later than the first communicator (2.28, shm.cc).
void Communicators::settle_path(Via via) {
  if (!via_ && via == Via::net) {
    constexpr int replace = 1;
    setenv("NCCL_P2P_DISABLE", "1", replace);
    setenv("NCCL_SHM_DISABLE", "1", replace);
    setenv("NCCL_NVLS_ENABLE", "0", replace);
    setenv("NCCL_NET_DISABLE_INTRA", "0", replace);
  }
  if (!via_) via_ = via;
  if (*via_ == via) return;
  constexpr bool asked_by_name = true;
  throw Unsupported(
      "via:net: NCCL reads the settings of its transports once, and other rows of this process have other settings; "
      "measure these rows in a launch of their own (--benchmark_filter=via:net)",
      asked_by_name);
}

Communicators::Made Communicators::of(Group& group, bool whole, Via via) {
  settle_path(via);
  std::shared_ptr<Communicator> made;
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) throw std::runtime_error("the NCCL communicators were aborted");
    auto& slot = by_group_[&group];
    if (slot) return {*slot, false};
    made = slot = std::make_shared<Communicator>();  // registered before it waits for other ranks
  }
  first_run([&] { made->connect(group); }, whole);
  return {*made, true};
}

void Communicators::leave(Group& group) {
  std::shared_ptr<Communicator> left;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_group_.find(&group);
    if (found == by_group_.end()) return;
    left = found->second;
    by_group_.erase(found);
  }
  left->finish();
}

std::string Communicators::first_run(const std::function<void()>& step, bool whole) {
  const auto log = listener_.during(step);
  if (via_ == Via::net) {
    for (const auto& link : log.links) transports_.insert(link.via);
  } else if (whole) {
    links_.insert(log.links.begin(), log.links.end());
  }
  return log.algorithm;
}

void Communicators::wait(cudaEvent_t event) {
  using Clock = std::chrono::steady_clock;
  auto next_look = Clock::now() + look_every;
  auto progress = cudaEventQuery(event);
  for (; progress == cudaErrorNotReady; progress = cudaEventQuery(event)) {
    if (Clock::now() < next_look) continue;
    for (const auto& communicator : all()) communicator->look();
    sign_();
    next_look = Clock::now() + look_every;
  }
  static_cast<void>(cudaGetLastError());  // "not ready" is stored as the last error
  check(progress);
}

std::vector<std::shared_ptr<Communicator>> Communicators::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Communicator>> all;
  for (const auto& [group, communicator] : by_group_) all.push_back(communicator);
  return all;
}

void Communicators::abort() noexcept {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  for (const auto& communicator : all()) communicator->abort();
}

}  // namespace shakedown::cuda
