// RAII file descriptors, pipes, and complete writes.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
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
  /// Gives up ownership: the caller must close the descriptor.
  int release() noexcept { return std::exchange(descriptor_, -1); }
  void close_now() noexcept {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

struct Pipe {
  Descriptor read_end, write_end;
};
/// Creates a pipe that child programs do not inherit. nullopt on error (errno).
inline std::optional<Pipe> make_pipe() noexcept {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Writes all of `text`. False on error (errno). Does not allocate.
inline bool write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const auto written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace shakedown
