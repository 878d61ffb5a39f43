// Page-locked host memory on a selected NUMA node.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/device.hpp"

namespace shakedown::cuda {

class Pinned {
 public:
  /// Without a node, the thread's memory policy decides. Errors: Unsupported if the placement or the lock is refused.
  Pinned(std::size_t bytes, std::optional<int> node);
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned();

  std::byte* data() const { return begin_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void release() noexcept;

  std::size_t bytes_;
  std::byte* begin_ = nullptr;
  bool registered_ = false;
};

}  // namespace shakedown::cuda
