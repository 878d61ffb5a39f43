#include "kernels/block_io/block_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/timed_call.hpp"

namespace shakedown::block_io {

namespace {

class Stream {
 public:
  Stream(BlockIo& io, BlockFile& file, Direction direction, std::byte* staging, const BlockStep& step)
      : io_(io), file_(file), direction_(direction), staging_(staging), step_(step) {}

  bool run(std::span<const Block> blocks) {
    std::size_t fresh = 0;  // slots that were used
    for (const auto& block : blocks) {
      if (fresh < BlockIo::depth) {
        free_.push_back(fresh++);
      } else if (free_.empty()) {
        finish_one();
      }
      const auto slot = free_.back();
      free_.pop_back();
      start(slot, block);
    }
    while (in_progress() > 0) finish_one();
    const bool is_direct = file_.is_direct();
    for (std::size_t slot = 0; slot < BlockIo::depth; ++slot) {
      if (slots_[slot].has_tail) finish_tail(slot);
    }
    return is_direct;
  }

  std::uint64_t done() const { return done_; }

 private:
  struct Slot {
    Block block{};
    bool is_in_progress = false, has_tail = false;
  };

  std::ptrdiff_t in_progress() const {
    return std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.is_in_progress; });
  }
  std::span<std::byte> memory(std::size_t slot) const {
    return {staging_ + slot * block_bytes, slots_[slot].block.bytes};
  }
  TimedCall call() const { return {direction_ == Direction::write ? "write" : "read", file_.path()}; }

  void start(std::size_t slot, const Block& block) {
    slots_[slot].block = block;
    if (direction_ == Direction::write) step_(memory(slot), block);
    const auto direct = file_.is_direct() ? block.bytes / page_bytes * page_bytes : block.bytes;
    slots_[slot].has_tail = direct < block.bytes;
    if (direct == 0) return;
    const auto timed = call();
    io_.start(file_.descriptor(), direction_, {slot, memory(slot).first(direct), block.offset});
    slots_[slot].is_in_progress = true;
  }

  void finish_one() {
    std::size_t slot = 0;
    try {
      const auto timed = call();
      slot = io_.finish();
    } catch (const std::system_error& error) {
      const bool is_refused = error.code() == std::errc::invalid_argument || error.code() == std::errc::bad_address;
      if (!file_.is_direct() || !is_refused) throw;
      repeat_without_direct();
      return;
    }
    slots_[slot].is_in_progress = false;
    if (!slots_[slot].has_tail) complete(slot);
  }

  /// Repeats all transfers that were in progress. The kernel refuses direct transfers if the file system needs a larger
  /// alignment, or if a driver has mapped the memory in a way of its own.
  void repeat_without_direct() {
    file_.leave_direct();
    for (std::size_t slot = 0; slot < BlockIo::depth; ++slot) {
      if (!slots_[slot].is_in_progress) continue;
      const auto timed = call();
      transfer_all(file_.descriptor(), direction_, memory(slot), slots_[slot].block.offset);
      slots_[slot] = {slots_[slot].block, false, false};
      complete(slot);
    }
  }

  /// Transfers the part of the last block that is smaller than a page.
  void finish_tail(std::size_t slot) {
    file_.leave_direct();
    const auto whole = slots_[slot].block.bytes / page_bytes * page_bytes;
    const auto timed = call();
    transfer_all(file_.descriptor(), direction_, memory(slot).subspan(whole), slots_[slot].block.offset + whole);
    complete(slot);
  }

  void complete(std::size_t slot) {
    if (direction_ == Direction::read) step_(memory(slot), slots_[slot].block);
    done_ += slots_[slot].block.bytes;
    free_.push_back(slot);
  }

  BlockIo& io_;
  BlockFile& file_;
  Direction direction_;
  std::byte* staging_;
  const BlockStep& step_;
  std::array<Slot, BlockIo::depth> slots_{};
  std::vector<std::size_t> free_;
  std::uint64_t done_ = 0;
};

}  // namespace

std::optional<BlockFile> BlockFile::open(const std::filesystem::path& path, int flags, mode_t mode) {
  const TimedCall call("open", path);
  Descriptor direct(::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, mode));
  if (direct.is_open()) return BlockFile(path, std::move(direct), true);
  if (errno != EINVAL) return std::nullopt;
  // The refused call has already created the file, so O_EXCL would fail.
  Descriptor cached(::open(path.c_str(), (flags & ~O_EXCL) | O_CLOEXEC, mode));
  if (!cached.is_open()) return std::nullopt;
  return BlockFile(path, std::move(cached), false);
}

void BlockFile::leave_direct() {
  const int flags = ::fcntl(descriptor(), F_GETFL);
  if (flags >= 0) static_cast<void>(::fcntl(descriptor(), F_SETFL, flags & ~O_DIRECT));
  is_direct_ = false;
}

bool BlockFile::reserve(std::uint64_t bytes) const {
  if (bytes == 0 || ::fallocate(descriptor(), 0, 0, static_cast<off_t>(bytes)) == 0) return true;
  return errno != ENOSPC && errno != EDQUOT;
}

std::uint64_t BlockFile::size() const {
  const auto end = ::lseek(descriptor(), 0, SEEK_END);
  return end < 0 ? 0 : static_cast<std::uint64_t>(end);
}

void BlockFile::forget() const { static_cast<void>(::posix_fadvise(descriptor(), 0, 0, POSIX_FADV_DONTNEED)); }

std::string access_text(const BlockIo& io, bool is_direct) {
  return fmt::format("{}, {}", io.name(), is_direct ? "O_DIRECT" : "page cache");
}

std::vector<Block> blocks_of(std::uint64_t bytes) {
  std::vector<Block> blocks;
  for (std::uint64_t at = 0; at < bytes; at += block_bytes) {
    blocks.push_back({at, static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes, bytes - at))});
  }
  return blocks;
}

bool stream(BlockIo& io, BlockFile& file, Direction direction, std::span<const Block> blocks, std::byte* staging,
            const BlockStep& step) {
  Stream transfers(io, file, direction, staging, step);
  try {
    return transfers.run(blocks);
  } catch (const std::system_error& error) {
    throw TransferError(error.code(), transfers.done());
  }
}

std::unique_ptr<BlockIo> fastest_io() {
  auto io = uring_io();
  return io != nullptr ? std::move(io) : plain_io();
}

}  // namespace shakedown::block_io
