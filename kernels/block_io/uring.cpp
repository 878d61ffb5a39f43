#include <liburing.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "kernels/block_io/block_io.hpp"

namespace shakedown::block_io {

namespace {

class Uring final : public BlockIo {
 public:
  /// Errors: std::system_error, for example if the system administrator has turned io_uring off.
  Uring() {
    if (const int error = io_uring_queue_init(depth, &ring_, 0); error < 0)
      throw std::system_error(-error, std::generic_category());
  }
  /// Waits until the kernel no longer uses the memory of transfers.
  ~Uring() override {
    try {
      while (in_progress_ > 0) wait();
    } catch (const std::system_error&) {  // the ring is broken, so nothing can be waited for
    }
    io_uring_queue_exit(&ring_);
  }

  void start(int file, Direction direction, const Transfer& transfer) override {
    auto* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) throw std::system_error(EBUSY, std::generic_category());
    const auto bytes = static_cast<unsigned>(transfer.memory.size());
    if (direction == Direction::write) {
      io_uring_prep_write(entry, file, transfer.memory.data(), bytes, transfer.offset);
    } else {
      io_uring_prep_read(entry, file, transfer.memory.data(), bytes, transfer.offset);
    }
    started_.at(transfer.slot) = {file, direction, transfer};
    io_uring_sqe_set_data64(entry, transfer.slot);
    if (const int sent = io_uring_submit(&ring_); sent < 0) throw std::system_error(-sent, std::generic_category());
    ++in_progress_;
  }

  std::size_t finish() override {
    const auto [slot, result] = wait();
    const auto& [file, direction, transfer] = started_.at(slot);
    const auto done = static_cast<std::size_t>(result < 0 ? 0 : result);
    try {
      // Linux before 5.6 answers EINVAL, because its rings have no reads and writes of plain memory.
      const bool is_repeatable = result == -EINTR || result == -EAGAIN || result == -EINVAL;
      if (result < 0 && !is_repeatable) throw std::system_error(-result, std::generic_category());
      if (done < transfer.memory.size()) {
        transfer_all(file, direction, transfer.memory.subspan(done), transfer.offset + done);
      }
    } catch (const std::system_error&) {
      while (in_progress_ > 0) wait();
      throw;
    }
    return slot;
  }

  std::string_view name() const override { return "io_uring"; }

 private:
  struct Started {
    int file = -1;
    Direction direction = Direction::read;
    Transfer transfer{};
  };

  std::pair<std::size_t, int> wait() {
    io_uring_cqe* entry = nullptr;
    int error = 0;
    do {
      error = io_uring_wait_cqe(&ring_, &entry);
    } while (error == -EINTR);
    if (error < 0) throw std::system_error(-error, std::generic_category());
    const std::pair found{static_cast<std::size_t>(io_uring_cqe_get_data64(entry)), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    --in_progress_;
    return found;
  }

  io_uring ring_{};
  std::size_t in_progress_ = 0;
  std::array<Started, depth> started_;
};

}  // namespace

std::unique_ptr<BlockIo> uring_io() {
  try {
    return std::make_unique<Uring>();
  } catch (const std::system_error&) {
    return nullptr;
  }
}

}  // namespace shakedown::block_io
