// A file descriptor that is closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace shakedown {

class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) noexcept : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() { close_now(); }

  int get() const noexcept { return descriptor_; }
  bool is_open() const noexcept { return descriptor_ >= 0; }
  /// Leaves it open, for somebody else to close.
  int release() noexcept { return std::exchange(descriptor_, -1); }
  void close_now() noexcept {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

}  // namespace shakedown
