// One allocation, divided into named slices. Without memory the arena only counts, which gives the memory plan. The
// same code divides the memory and makes the plan, so that both agree to the byte.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shakedown::training {

struct Slice {
  std::string name;
  std::size_t offset, bytes;
};

class Arena {
 public:
  /// Every slice begins at a multiple of this. This multiple suits wide loads and is the alignment that cuBLASLt and
  /// cuDNN prefer.
  static constexpr std::size_t alignment = 256;

  /// Divides the memory at `base`. Without a base, it only counts the bytes.
  explicit Arena(std::byte* base = nullptr) : base_(base) {}

  template <class T>
  T* take(std::string name, std::size_t count) {
    const auto offset = bytes_;
    slices_.push_back({std::move(name), offset, count * sizeof(T)});
    bytes_ += (count * sizeof(T) + alignment - 1) / alignment * alignment;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset);
  }

  std::size_t bytes() const { return bytes_; }
  const std::vector<Slice>& slices() const { return slices_; }

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
  std::vector<Slice> slices_;
};

}  // namespace shakedown::training
