// One allocation, divided into named slices. Without memory the arena only counts, which gives the memory plan. The
// same code divides the memory and makes the plan, so that both agree to the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/names.hpp"

namespace shakedown::training {

/// The use of memory. optimizer: masters and moments. cache: keys and values of a decode. activations: those that the
/// forward pass keeps for the backward pass, or all of a decode. scratch: all that layers share.
enum class Use { weights, gradients, optimizer, cache, activations, scratch };
constexpr auto words(Use) { return names("weights", "gradients", "optimizer", "cache", "activations", "scratch"); }

struct Slice {
  std::string name;
  std::size_t offset, bytes;
  Use use;
};

class Arena {
 public:
  /// Every slice begins at a multiple of this. This multiple suits wide loads and is the alignment that cuBLASLt and
  /// cuDNN prefer.
  static constexpr std::size_t alignment = 256;

  /// Divides the memory at `base`. Without a base, it only counts the bytes.
  explicit Arena(std::byte* base = nullptr) : base_(base) {}

  /// Sets the use of the slices that are taken from now on.
  void start(Use use) { use_ = use; }

  template <class T>
  T* take(std::string name, std::size_t count) {
    const auto offset = bytes_, bytes = count * sizeof(T), padded = (bytes + alignment - 1) / alignment * alignment;
    slices_.push_back({std::move(name), offset, bytes, use_});
    bytes_ += padded;
    bytes_by_use_[use_] += padded;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset);
  }

  std::size_t bytes() const { return bytes_; }
  /// Returns the bytes of each use, whose sum is bytes().
  const std::map<Use, std::size_t>& bytes_by_use() const { return bytes_by_use_; }
  const std::vector<Slice>& slices() const { return slices_; }

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
  Use use_ = Use::scratch;
  std::map<Use, std::size_t> bytes_by_use_;
  std::vector<Slice> slices_;
};

/// The memory of an operation and its uses.
struct Plan {
  std::size_t bytes = 0;
  std::map<Use, std::size_t> by_use;
  std::vector<Slice> slices;
  std::size_t host_bytes = 0;  // in addition, in the memory of the host
};

/// Returns the plan that `place` makes in an arena without memory, where place<Element, Master>(arena) has types of
/// these sizes. Errors: std::invalid_argument for sizes that no backend has.
template <class Place>
Plan dry_run(std::size_t element, std::size_t master, const Place& place) {
  Arena arena;
  if (element == 2 && master == 4) {
    place.template operator()<std::uint16_t, float>(arena);
  } else if (element == 4 && master == 4) {
    place.template operator()<float, float>(arena);
  } else if (element == 8 && master == 8) {
    place.template operator()<double, double>(arena);
  } else {
    throw std::invalid_argument("no backend has elements of " + std::to_string(element) + " bytes with masters of " +
                                std::to_string(master));
  }
  return {arena.bytes(), arena.bytes_by_use(), arena.slices()};
}

}  // namespace shakedown::training
