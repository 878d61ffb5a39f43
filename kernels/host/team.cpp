#include "kernels/host/team.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace shakedown::host {

Team::Team(int size) : size_(std::max(size, 1)), gate_(size_) {
  for (int member = 1; member < size_; ++member) members_.emplace_back([this, member] { serve(member); });
}

Team::~Team() {
  if (size_ == 1) return;
  task_ = nullptr;
  gate_.arrive_and_wait();
}

void Team::run(const std::function<void(int)>& task) {
  if (size_ == 1) return task(0);
  task_ = &task;
  gate_.arrive_and_wait();  // the task starts
  task(0);
  gate_.arrive_and_wait();  // the task is done
}

void Team::serve(int member) {
  for (;;) {
    gate_.arrive_and_wait();
    if (task_ == nullptr) return;
    (*task_)(member);
    gate_.arrive_and_wait();
  }
}

void Team::each_range(std::size_t count, const std::function<void(std::size_t, std::size_t)>& task) {
  const auto members = static_cast<std::size_t>(size_);
  run([&](int member) {
    const auto m = static_cast<std::size_t>(member);
    task(count * m / members, count * (m + 1) / members);
  });
}

void Team::copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (from.size() != to.size()) throw std::invalid_argument("Team::copy: source and target differ in size");
  // Ranges consist of whole cache lines, so that no two members write to the same line.
  constexpr std::size_t line = 64;
  each_range((from.size() + line - 1) / line, [&](std::size_t begin, std::size_t end) {
    const auto first = begin * line;
    const auto last = std::min(end * line, from.size());
    if (first < last) std::memcpy(to.data() + first, from.data() + first, last - first);
  });
}

}  // namespace shakedown::host
