// Writes and reads one large file for each rank, all ranks at once. Each word that is read is checked.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/statistics.hpp"
#include "base/timed_call.hpp"
#include "kernels/block_io/block_file.hpp"
#include "kernels/block_io/block_io.hpp"
#include "kernels/storage/gpu_direct.hpp"
#include "kernels/storage/position_words.hpp"
#include "kernels/storage/storage_work.hpp"

namespace shakedown::storage {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The memory of all blocks in transfer.
class Slots {
 public:
  Slots() : memory_(static_cast<std::byte*>(std::aligned_alloc(block_io::page_bytes, block_io::staging_bytes))) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() { std::free(memory_); }

  std::byte* data() const { return memory_; }

 private:
  std::byte* memory_;
};

block_io::BlockFile opened(const fs::path& path, int flags) {
  auto file = block_io::BlockFile::open(path, flags | O_NOFOLLOW);
  require(file.has_value(), path, "cannot be opened");
  return std::move(*file);
}

std::span<std::uint64_t> words_of(std::span<std::byte> memory) {
  return {reinterpret_cast<std::uint64_t*>(memory.data()), memory.size() / sizeof(std::uint64_t)};
}

class Streams final : public StorageWork {
 public:
  explicit Streams(const Spec& spec) : StorageWork(spec), io_(block_io::fastest_io()) {}
  ~Streams() override { remove_files(); }

  bool on_host() const override { return true; }

  std::string chosen() const override {
    return fmt::format("{}; {}", block_io::access_text(*io_, is_direct_), gpu_direct_text());
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
    } else if (const auto file = opened(path, O_RDONLY); !file.is_direct()) {
      file.forget();
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

  /// Transfers all blocks of a file.
  void stream(block_io::BlockFile& file, block_io::Direction direction, const block_io::BlockStep& step) {
    try {
      is_direct_ = block_io::stream(*io_, file, direction, block_io::blocks_of(spec().bytes), slots_.data(), step);
    } catch (const block_io::TransferError& error) {
      refuse(file.path(), fmt::format("{} fails after {} of {} bytes", name(direction), error.done, spec().bytes),
             error.code());
    }
  }

  void write_file() {
    const auto path = file_of(group().rank());
    auto file = opened(path, O_WRONLY | O_CREAT | O_TRUNC);
    // Not every file system supports this, and those that do report a full disk at once.
    require(file.reserve(spec().bytes), path, fmt::format("has no space for {} bytes", spec().bytes));
    const auto own = static_cast<std::uint64_t>(group().rank());
    stream(file, block_io::Direction::write, [&](std::span<std::byte> memory, const block_io::Block& block) {
      words_.fill(words_of(memory), own, version_, block.offset);
    });
    const auto begin = Clock::now();
    require(::fsync(file.descriptor()) == 0, path, "fsync fails");
    fsync_seconds_.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    if (!is_direct_) file.forget();
  }

  void read_file() {
    const auto path = file_of(source());
    auto file = opened(path, O_RDONLY);
    const auto writer = static_cast<std::uint64_t>(source());
    stream(file, block_io::Direction::read, [&](std::span<std::byte> memory, const block_io::Block& block) {
      const auto words = words_of(memory);
      const auto wrong = words_.wrong(words, writer, version_, block.offset);
      found_.compared += words.size();
      found_.mismatched += wrong;
      if (wrong == 0 || !found_.first.empty()) return;
      found_.first = fmt::format("{} of {} words from byte {} of {}, which rank {} wrote", wrong, words.size(),
                                 block.offset, path.string(), writer);
    });
  }

  const PositionWords words_;
  Slots slots_;
  std::unique_ptr<block_io::BlockIo> io_;  // destroyed before the slots that it may still use
  bool is_direct_ = false;
  std::uint64_t version_ = 0;  // of the files of all ranks
  Check found_;
  std::vector<double> fsync_seconds_;
};

}  // namespace

std::unique_ptr<Work> make_streams(const Spec& spec) { return std::make_unique<Streams>(spec); }

}  // namespace shakedown::storage
