// Page-locked host memory on a selected NUMA node.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/device.hpp"

namespace shakedown::cuda {

/// Returns the NUMA node that Linux reports for a PCI device ("0000:1b:00.0"); nullopt if there is only one node or it
/// is unknown.
std::optional<int> numa_node_of(const std::string& pci);

/// Returns another node that has memory; nullopt if there is none.
std::optional<int> node_far_from(int node);

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
