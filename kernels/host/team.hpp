// A fixed team of threads that process one task after another. A memory operation thereby uses all cores of the rank
// without starting threads inside the timed region.
#pragma once

#include <barrier>
#include <cstddef>
#include <functional>
#include <span>
#include <thread>
#include <vector>

namespace shakedown::host {

class Team {
 public:
  explicit Team(int size);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int size() const { return size_; }

  /// Runs task(member) for member = 0..size-1, member 0 on the caller's thread; returns when all are done.
  void run(const std::function<void(int)>& task);

  /// Copies with all members; each copies one contiguous part.
  void copy(std::span<const std::byte> from, std::span<std::byte> to);

  /// Runs task(begin, end) over 0..count, split evenly into one range for each member.
  void each_range(std::size_t count, const std::function<void(std::size_t, std::size_t)>& task);

 private:
  void serve(int member);

  int size_;
  const std::function<void(int)>* task_ = nullptr;  // null tells the member thread to exit
  std::barrier<> gate_;
  std::vector<std::jthread> members_;
};

}  // namespace shakedown::host
