// A large file that is written or read in blocks, past the page cache if its file system supports that.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/descriptor.hpp"
#include "kernels/block_io/block_io.hpp"

namespace shakedown::block_io {

inline constexpr std::size_t block_bytes = std::size_t{4} << 20;
inline constexpr std::size_t page_bytes = 4096;  // O_DIRECT needs memory, offsets and sizes that are multiples of it
/// The memory of all blocks in transfer.
inline constexpr std::size_t staging_bytes = BlockIo::depth * block_bytes;

class BlockFile {
 public:
  /// Opens a file with O_DIRECT, or without it if the file system does not support that. nullopt on error (errno).
  static std::optional<BlockFile> open(const std::filesystem::path&, int flags, mode_t mode = 0600);

  int descriptor() const { return descriptor_.get(); }
  const std::filesystem::path& path() const { return path_; }
  bool is_direct() const { return is_direct_; }
  /// Sends later transfers through the page cache.
  void leave_direct();
  /// Allocates the space of a file. False if the disk is full (errno). Does nothing if the file system cannot do that.
  bool reserve(std::uint64_t bytes) const;
  /// Returns the size in bytes; 0 if it is unknown.
  std::uint64_t size() const;
  /// Drops the file from the page cache, so that the next reader reads from the disk.
  void forget() const;

 private:
  BlockFile(std::filesystem::path path, Descriptor descriptor, bool is_direct)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), is_direct_(is_direct) {}

  std::filesystem::path path_;
  Descriptor descriptor_;
  bool is_direct_;
};

/// Returns how a file is accessed, such as "io_uring, O_DIRECT".
std::string access_text(const BlockIo&, bool is_direct);

/// A part of a file. Only the last block of a file may end inside a page.
struct Block {
  std::uint64_t offset;
  std::size_t bytes;  // at most block_bytes
};
/// Returns the blocks of a file of this size.
std::vector<Block> blocks_of(std::uint64_t bytes);

/// A transfer that failed after `done` bytes.
struct TransferError : std::system_error {
  TransferError(std::error_code error, std::uint64_t bytes) : std::system_error(error), done(bytes) {}
  std::uint64_t done;
};

/// Fills the memory of a block before it is written, or uses it after the block is read. The calls are in no order.
using BlockStep = std::function<void(std::span<std::byte> memory, const Block&)>;

/// Writes or reads blocks of a file, several at once. `staging` has staging_bytes bytes and begins at a page. If the
/// file system or the memory does not allow direct transfers, the page cache is used. Returns true if all whole pages
/// bypassed the page cache; later transfers of the file may use it. Errors: TransferError; errors of
/// `step`, after which the BlockIo must be destroyed before the memory is used again.
bool stream(BlockIo&, BlockFile&, Direction, std::span<const Block>, std::byte* staging, const BlockStep& step);

}  // namespace shakedown::block_io
