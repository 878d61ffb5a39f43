#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "kernels/block_io/block_io.hpp"

namespace shakedown::block_io {

namespace {

/// Each transfer has a thread, so that as many are in progress as with io_uring. Containers block io_uring, and one
/// transfer at a time reaches only a part of the rate of a shared file system.
class ThreadIo final : public BlockIo {
 public:
  ThreadIo() {
    for (std::size_t i = 0; i < depth; ++i) threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  }

  void start(int file, Direction direction, const Transfer& transfer) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({file, direction, transfer});
    ++in_progress_;
    started_.notify_one();
  }

  std::size_t finish() override {
    std::unique_lock lock(mutex_);
    if (in_progress_ == 0) throw std::logic_error("no transfer is in progress");
    ended_.wait(lock, [this] { return !finished_.empty(); });
    const auto [slot, error] = finished_.front();
    if (!error) {
      finished_.pop_front();
      --in_progress_;
      return slot;
    }
    ended_.wait(lock, [this] { return finished_.size() == in_progress_; });
    finished_.clear();
    in_progress_ = 0;
    throw std::system_error(error);
  }

  std::string_view name() const override { return "pread and pwrite in 8 threads"; }

 private:
  static_assert(depth == 8, "name() has the number of threads");

  struct Started {
    int file;
    Direction direction;
    Transfer transfer;
  };
  struct Finished {
    std::size_t slot;
    std::error_code error;
  };

  void run(const std::stop_token& stop) {
    // The measuring thread handles signals.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(mutex_);
    while (started_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
      const auto [file, direction, transfer] = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      std::error_code error;
      try {
        transfer_all(file, direction, transfer.memory, transfer.offset);
      } catch (const std::system_error& failed) {
        error = failed.code();
      }
      lock.lock();
      finished_.push_back({transfer.slot, error});
      ended_.notify_one();
    }
  }

  std::mutex mutex_;  // of all below
  std::condition_variable_any started_;
  std::condition_variable ended_;
  std::deque<Started> waiting_;
  std::deque<Finished> finished_;
  std::size_t in_progress_ = 0;        // started, and not yet returned by finish()
  std::vector<std::jthread> threads_;  // destroyed first, which waits until no transfer uses its memory
};

}  // namespace

void transfer_all(int file, Direction direction, std::span<std::byte> memory, std::uint64_t offset) {
  const auto done = direction == Direction::read ? read_at(file, memory, offset) : write_at(file, memory, offset);
  if (!done) throw std::system_error(errno, std::generic_category());
  if (*done < memory.size()) throw std::system_error(EIO, std::generic_category());
}

std::unique_ptr<BlockIo> plain_io() { return std::make_unique<ThreadIo>(); }

}  // namespace shakedown::block_io
