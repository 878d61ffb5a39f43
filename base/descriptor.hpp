// RAII file descriptors, pipes, and complete reads and writes.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

/// Repeats a system call until it has transferred `size` bytes or the file ends. `call` gets the number of bytes that
/// are already transferred. Returns the number of transferred bytes; nullopt on error (errno). Does not allocate.
template <class Call>
std::optional<std::size_t> transfer_in_parts(std::size_t size, const Call& call) noexcept {
  std::size_t done = 0;
  while (done < size) {
    const auto part = call(done);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return std::nullopt;
    if (part == 0) break;
    done += static_cast<std::size_t>(part);
  }
  return done;
}

/// Writes all of `text`. False on error (errno). Does not allocate.
inline bool write_all(int descriptor, std::string_view text) noexcept {
  return transfer_in_parts(text.size(), [=](std::size_t done) {
           return write(descriptor, text.data() + done, text.size() - done);
         }) == text.size();
}

/// Reads from byte `from` of a file until `bytes` is full or the file ends. Returns the number of bytes that are read;
/// nullopt on error (errno).
inline std::optional<std::size_t> read_at(int descriptor, std::span<std::byte> bytes, std::uint64_t from) noexcept {
  return transfer_in_parts(bytes.size(), [=](std::size_t done) {
    return pread(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(from + done));
  });
}

/// Writes `bytes` from byte `from` of a file on. Returns the number of bytes that are written; nullopt on error
/// (errno).
inline std::optional<std::size_t> write_at(int descriptor, std::span<const std::byte> bytes,
                                           std::uint64_t from) noexcept {
  return transfer_in_parts(bytes.size(), [=](std::size_t done) {
    return pwrite(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(from + done));
  });
}

}  // namespace shakedown
