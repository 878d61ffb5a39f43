// Reads and writes of blocks of one file, several at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/names.hpp"

namespace shakedown::block_io {

enum class Direction { write, read };
constexpr auto words(Direction) { return names("write", "read"); }

/// A block in transfer. `slot` is the index of its memory.
struct Transfer {
  std::size_t slot;
  std::span<std::byte> memory;
  std::uint64_t offset;  // in the file
};

class BlockIo {
 public:
  /// Most blocks in transfer at once.
  static constexpr std::size_t depth = 8;

  BlockIo() = default;
  BlockIo(const BlockIo&) = delete;
  BlockIo& operator=(const BlockIo&) = delete;
  virtual ~BlockIo() = default;

  /// Starts a transfer between memory and a file. Errors: std::system_error.
  virtual void start(int file, Direction, const Transfer&) = 0;
  /// Waits for a transfer, and returns its slot. Errors: std::system_error; no transfer is then in progress.
  virtual std::size_t finish() = 0;
  virtual std::string_view name() const = 0;
};

/// Returns the transfers of io_uring; null if this build or this kernel does not have it.
std::unique_ptr<BlockIo> uring_io();
/// Returns transfers by pread and pwrite, each in a thread. Errors: std::system_error if no thread can be started.
std::unique_ptr<BlockIo> plain_io();

/// Returns the transfers of io_uring if possible, else those in threads. Errors: those of plain_io.
std::unique_ptr<BlockIo> fastest_io();

/// Transfers all of `memory`. Errors: std::system_error; a file that ends too early is EIO.
void transfer_all(int file, Direction, std::span<std::byte> memory, std::uint64_t offset);

}  // namespace shakedown::block_io
