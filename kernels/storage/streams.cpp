// Writes and reads one large file for each rank, all ranks at once. Each word that is read is checked.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/statistics.hpp"
#include "base/timed_call.hpp"
#include "kernels/storage/block_io.hpp"
#include "kernels/storage/gpu_direct.hpp"
#include "kernels/storage/position_words.hpp"
#include "kernels/storage/storage_work.hpp"

namespace shakedown::storage {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t block_bytes = std::size_t{4} << 20;
constexpr std::size_t page_bytes = 4096;  // O_DIRECT needs aligned memory

/// The memory of all blocks in transfer.
class Slots {
 public:
  Slots() : memory_(static_cast<std::byte*>(std::aligned_alloc(page_bytes, BlockIo::depth * block_bytes))) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() { std::free(memory_); }

  std::span<std::byte> bytes(std::size_t slot, std::size_t count) const {
    return {memory_ + slot * block_bytes, count};
  }
  std::span<std::uint64_t> words(std::size_t slot, std::size_t bytes) const {
    return {reinterpret_cast<std::uint64_t*>(memory_ + slot * block_bytes), bytes / sizeof(std::uint64_t)};
  }

 private:
  std::byte* memory_;
};

/// A file that is open for transfers that bypass the page cache, if its file system supports that.
struct StreamFile {
  Descriptor descriptor;
  bool is_direct;
};

StreamFile opened(const fs::path& path, int flags) {
  const TimedCall call("open", path);
  Descriptor direct(::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (direct.is_open()) return {std::move(direct), true};
  if (errno != EINVAL) require(false, path, "cannot be opened");
  Descriptor cached(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
  require(cached.is_open(), path, "cannot be opened");
  return {std::move(cached), false};
}

class Streams final : public StorageWork {
 public:
  explicit Streams(const Spec& spec) : StorageWork(spec), io_(uring_io()) {
    if (io_ == nullptr) io_ = plain_io();
  }
  ~Streams() override { remove_files(); }

  bool on_host() const override { return true; }

  std::string chosen() const override {
    return fmt::format("{}, {}; {}", io_->name(), is_direct_ ? "O_DIRECT" : "page cache", gpu_direct_text());
  }

  Metrics metrics() override {
    Metrics found{{"is_direct", is_direct_ ? 1 : 0}};
    if (!fsync_seconds_.empty()) found.emplace_back("fsync_ms", median(fsync_seconds_) * 1e3);
    return found;
  }

  /// Changes one bit of this rank's file.
  void corrupt() override {
    const Descriptor file(::open(file_of(group().rank()).c_str(), O_RDWR | O_CLOEXEC));
    std::byte byte{};
    const auto at = static_cast<off_t>(spec().bytes / 2);
    if (::pread(file.get(), &byte, 1, at) != 1) return;
    byte ^= std::byte{1};
    if (::pwrite(file.get(), &byte, 1, at) == 1) ::fsync(file.get());
  }

 protected:
  void prepare_files() override {
    if (spec().op == Op::read) write_file();
  }

  void before_sample() override {
    const auto path = file_of(spec().op == Op::write ? group().rank() : source());
    if (spec().op == Op::write) {
      const TimedCall call("remove", path);
      std::error_code error;
      fs::remove(path, error);
      ++version_;
    } else if (const auto file = opened(path, O_RDONLY); !file.is_direct) {
      ::posix_fadvise(file.descriptor.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
  }

  void run() override {
    attempt([&] { spec().op == Op::write ? write_file() : read_file(); });
    group().on_host().barrier();
  }

  void clear() override {
    found_ = {};
    fsync_seconds_.clear();
  }

  /// Reads the file of another host. All ranks have written the same version.
  Check check() override {
    if (spec().op == Op::read) return found_;
    group().barrier();
    read_file();
    return found_;
  }

  void remove_files() noexcept override {
    std::error_code error;
    if (!folder().empty()) fs::remove(file_of(group().rank()), error);
  }

 private:
  int source() const { return source_of(group().hosts(), group().rank()); }
  std::size_t blocks() const { return (spec().bytes + block_bytes - 1) / block_bytes; }
  std::size_t size_of_block(std::size_t block) const {
    return std::min(block_bytes, spec().bytes - block * block_bytes);
  }

  /// Transfers all blocks. `before` is called before a block is started, and `after` when it is complete.
  template <class Before, class After>
  void stream(const StreamFile& file, const fs::path& path, Direction direction, const Before& before,
              const After& after) {
    std::array<std::size_t, BlockIo::depth> block_of{};
    std::size_t finished = 0;
    const auto finish = [&] {
      const TimedCall call(direction == Direction::write ? "write" : "read", path);
      const auto slot = io_->finish();
      after(slot, block_of[slot]);
      ++finished;
      return slot;
    };
    try {
      for (std::size_t block = 0; block < blocks(); ++block) {
        const auto slot = block < BlockIo::depth ? block : finish();
        block_of[slot] = block;
        before(slot, block);
        const TimedCall call(direction == Direction::write ? "write" : "read", path);
        io_->start(file.descriptor.get(), direction,
                   {slot, slots_.bytes(slot, size_of_block(block)), std::uint64_t{block} * block_bytes});
      }
      while (finished < blocks()) finish();
    } catch (const std::system_error& error) {
      refuse(path, fmt::format("{} fails after {} of {} bytes", name(direction), finished * block_bytes, spec().bytes),
             error.code());
    }
  }

  void write_file() {
    const auto path = file_of(group().rank());
    const auto file = opened(path, O_WRONLY | O_CREAT | O_TRUNC);
    is_direct_ = file.is_direct;
    // Not every file system supports this, and those that do report a full disk at once.
    if (::fallocate(file.descriptor.get(), 0, 0, static_cast<off_t>(spec().bytes)) != 0 && errno == ENOSPC)
      require(false, path, fmt::format("has no space for {} bytes", spec().bytes));
    const auto own = static_cast<std::uint64_t>(group().rank());
    stream(
        file, path, Direction::write,
        [&](std::size_t slot, std::size_t block) {
          words_.fill(slots_.words(slot, size_of_block(block)), own, version_, std::uint64_t{block} * block_bytes);
        },
        [](std::size_t, std::size_t) {});
    const auto begin = Clock::now();
    require(::fsync(file.descriptor.get()) == 0, path, "fsync fails");
    fsync_seconds_.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    if (!file.is_direct) ::posix_fadvise(file.descriptor.get(), 0, 0, POSIX_FADV_DONTNEED);
  }

  void read_file() {
    const auto path = file_of(source());
    const auto file = opened(path, O_RDONLY);
    is_direct_ = file.is_direct;
    const auto writer = static_cast<std::uint64_t>(source());
    stream(
        file, path, Direction::read, [](std::size_t, std::size_t) {},
        [&](std::size_t slot, std::size_t block) {
          const auto words = slots_.words(slot, size_of_block(block));
          const auto wrong = words_.wrong(words, writer, version_, std::uint64_t{block} * block_bytes);
          found_.compared += words.size();
          found_.mismatched += wrong;
          if (wrong == 0 || !found_.first.empty()) return;
          found_.first = fmt::format("{} of {} words from byte {} of {}, which rank {} wrote", wrong, words.size(),
                                     block * block_bytes, path.string(), writer);
        });
  }

  const PositionWords words_;
  Slots slots_;
  std::unique_ptr<BlockIo> io_;  // destroyed before the slots that it may still use
  bool is_direct_ = false;
  std::uint64_t version_ = 0;  // of the files of all ranks
  Check found_;
  std::vector<double> fsync_seconds_;
};

}  // namespace

std::unique_ptr<Work> make_streams(const Spec& spec) { return std::make_unique<Streams>(spec); }

}  // namespace shakedown::storage
