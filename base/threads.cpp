#include "base/threads.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

namespace shakedown {
namespace {

/// Starts `count` threads, or fewer if the system permits no more.
std::vector<std::jthread> threads_of(std::size_t count, const std::function<void()>& work) {
  std::vector<std::jthread> threads;
  try {
    while (threads.size() < count) threads.emplace_back(work);
  } catch (const std::system_error&) {  // the caller does the rest
  }
  return threads;
}

std::size_t cores() { return std::max<std::size_t>(1, std::thread::hardware_concurrency()); }

/// True in the threads of `in_order`. Work that they share among further threads would start cores^2 threads.
thread_local bool is_one_of_many = false;

/// Which numbers were worked on and used.
class Progress {
 public:
  Progress(std::size_t count, std::size_t max_ahead) : count_(count), max_ahead_(max_ahead) {}

  /// Works until no number is left.
  void work(const std::function<void(std::size_t)>& work) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return next_ >= count_ || next_ < used_ + max_ahead_; });
      if (next_ >= count_) return;
      const std::size_t i = next_++;
      lock.unlock();
      std::exception_ptr error;
      try {
        work(i);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      done_.emplace(i, error);
      changed_.notify_all();
    }
  }
  /// Waits for a number. Errors: those of its work.
  void wait(std::size_t i) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.contains(i); });
    const auto error = done_.extract(i).mapped();
    if (error) std::rethrow_exception(error);
  }
  /// Permits work on further numbers.
  void used(std::size_t i) {
    const std::lock_guard lock(mutex_);
    used_ = i + 1;
    changed_.notify_all();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    next_ = count_;
    changed_.notify_all();
  }

 private:
  const std::size_t count_, max_ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, used_ = 0;
  std::map<std::size_t, std::exception_ptr> done_;  // numbers that wait for their use, with the error of their work
};

}  // namespace

std::vector<std::size_t> numbers_below(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

void in_threads(const std::vector<std::size_t>& numbers, const std::function<void(std::size_t)>& work,
                std::size_t max_threads) {
  std::mutex mutex;
  std::map<std::size_t, std::exception_ptr> errors;
  std::atomic<std::size_t> next = 0;
  const auto work_on = [&] {
    for (auto i = next++; i < numbers.size(); i = next++) {
      try {
        work(numbers[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        errors.emplace(numbers[i], std::current_exception());
      }
    }
  };
  {
    const std::size_t threads = is_one_of_many ? 1 : std::min({cores(), numbers.size(), max_threads});
    const auto others = threads_of(threads - std::min<std::size_t>(threads, 1), work_on);
    work_on();
  }
  if (!errors.empty()) std::rethrow_exception(errors.begin()->second);
}

void in_order(std::size_t count, const std::function<void(std::size_t)>& work,
              const std::function<void(std::size_t)>& use) {
  constexpr std::size_t ahead_for_each_core = 2;
  const std::size_t workers = std::min({cores(), count, max_reading_threads});
  Progress progress(count, ahead_for_each_core * workers);
  const auto threads = threads_of(workers, [&] {
    is_one_of_many = workers > 1;
    progress.work(work);
  });
  try {
    for (std::size_t i = 0; i < count; ++i) {
      if (threads.empty()) {
        work(i);
      } else {
        progress.wait(i);
      }
      use(i);
      progress.used(i);
    }
  } catch (...) {
    progress.stop();
    throw;
  }
}

}  // namespace shakedown
