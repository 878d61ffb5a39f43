#include <unistd.h>

#include <cerrno>
#include <deque>
#include <stdexcept>
#include <system_error>

#include "kernels/storage/block_io.hpp"

namespace shakedown::storage {

namespace {

class PlainIo final : public BlockIo {
 public:
  void start(int file, Direction direction, const Transfer& transfer) override {
    transfer_all(file, direction, transfer.memory, transfer.offset);
    finished_.push_back(transfer.slot);
  }
  std::size_t finish() override {
    if (finished_.empty()) throw std::logic_error("no transfer is in progress");
    const auto slot = finished_.front();
    finished_.pop_front();
    return slot;
  }
  std::string_view name() const override { return "pread and pwrite"; }

 private:
  std::deque<std::size_t> finished_;
};

}  // namespace

void transfer_all(int file, Direction direction, std::span<std::byte> memory, std::uint64_t offset) {
  while (!memory.empty()) {
    const auto at = static_cast<off_t>(offset);
    const auto done = direction == Direction::write ? ::pwrite(file, memory.data(), memory.size(), at)
                                                    : ::pread(file, memory.data(), memory.size(), at);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw std::system_error(done < 0 ? errno : EIO, std::generic_category());
    memory = memory.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

std::unique_ptr<BlockIo> plain_io() { return std::make_unique<PlainIo>(); }

}  // namespace shakedown::storage
