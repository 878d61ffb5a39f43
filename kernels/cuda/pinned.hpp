// Page-locked memory of the host on a NUMA node of choice.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/device.hpp"

namespace shakedown::cuda {

/// The NUMA node that Linux names for a PCI device ("0000:1b:00.0"); nothing where there is only one, or it does not
/// say.
std::optional<int> numa_node_of(const std::string& pci);

/// Another node that has memory; nothing if there is none.
std::optional<int> node_far_from(int node);

class Pinned {
 public:
  /// Without a node: wherever this thread's policy puts it. Errors: Unsupported if the node or the lock is refused.
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
