// One rank renames a file into place, over the file before it. All other ranks read the name until they get the new
// file.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/timed_call.hpp"
#include "kernels/block_io/block_io.hpp"
#include "kernels/storage/position_words.hpp"
#include "kernels/storage/storage_work.hpp"

namespace shakedown::storage {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t file_bytes = 65536;
constexpr auto most_seconds = std::chrono::seconds(10);  // NFS caches names for 3 s and more
constexpr auto pause = std::chrono::microseconds(200);

class Visible final : public StorageWork {
 public:
  explicit Visible(const Spec& spec) : StorageWork(spec), data_(file_bytes / sizeof(std::uint64_t)) {}
  ~Visible() override { remove_files(); }

  /// Returns the longest time until this rank saw a file of another host, or of this host if there is no other. The
  /// median over samples would hide it: in a part of the samples, the writer is on this host.
  Metrics metrics() override { return {{"slowest_visible_s", slowest_}}; }

 protected:
  void prepare_files() override {
    const auto& hosts = group().hosts();
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      const auto end = hosts.begin() + static_cast<std::ptrdiff_t>(rank);
      if (std::find(hosts.begin(), end, hosts[rank]) == end) writers_.push_back(static_cast<int>(rank));
    }
  }

  /// Writes the next file under another name. The readers read the file before it, which their caches then have.
  void before_sample() override {
    ++version_;
    if (!is_writer()) {
      static_cast<void>(has_version(version_ - 1));
      return;
    }
    pattern_.fill(data_, 0, version_, 0);
    const TimedCall call("write", next());
    const Descriptor file(::open(next().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    require(file.is_open(), next(), "cannot be opened");
    try {
      block_io::transfer_all(file.get(), block_io::Direction::write, std::as_writable_bytes(std::span(data_)), 0);
    } catch (const std::system_error& error) {
      refuse(next(), "cannot be written", error.code());
    }
    require(::fsync(file.get()) == 0, next(), "fsync fails");
  }

  void run() override {
    const auto begin = Clock::now();
    attempt([&] { is_writer() ? put_in_place() : wait_for_file(); });
    if (!is_writer_here() || writers_.size() == 1)
      slowest_ = std::max(slowest_, std::chrono::duration<double>(Clock::now() - begin).count());
  }

  void clear() override {
    found_ = {};
    slowest_ = 0;
  }
  Check check() override { return found_; }

  void remove_files() noexcept override {
    if (folder().empty() || group().rank() != 0) return;
    std::error_code error;
    for (const auto& path : {next(), current()}) fs::remove(path, error);
  }

 private:
  fs::path next() const { return folder() / "next"; }
  fs::path current() const { return folder() / "current"; }
  /// True if this rank writes the present version: the first ranks of all hosts take turns.
  int writer() const { return writers_[(version_ - 1) % writers_.size()]; }
  bool is_writer() const { return writer() == group().rank(); }
  bool is_writer_here() const {
    const auto& hosts = group().hosts();
    return hosts[static_cast<std::size_t>(writer())] == hosts[static_cast<std::size_t>(group().rank())];
  }

  void put_in_place() {
    const TimedCall call("rename", next());
    require(::rename(next().c_str(), current().c_str()) == 0, next(), "cannot be renamed");
    ++found_.compared;
  }

  void wait_for_file() {
    const auto end = Clock::now() + most_seconds;
    while (!has_version(version_)) {
      if (Clock::now() > end)
        refuse(current(), "is not seen 10 s after another rank renamed it into place",
               {ENOENT, std::generic_category()});
      std::this_thread::sleep_for(pause);
    }
    ++found_.compared;
  }

  /// True if the name has a file of this version; false if it has none or the one before. Any other data is wrong.
  bool has_version(std::uint64_t version) {
    const TimedCall call("read", current());
    const Descriptor file(::open(current().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.is_open()) {
      if (errno != ENOENT && errno != ESTALE) require(false, current(), "cannot be opened");
      return false;
    }
    try {
      block_io::transfer_all(file.get(), block_io::Direction::read, std::as_writable_bytes(std::span(data_)), 0);
    } catch (const std::system_error& error) {
      if (error.code().value() == ESTALE) return false;  // NFS: the file was replaced during the read
      if (error.code().value() != EIO) refuse(current(), "cannot be read", error.code());
      std::fill(data_.begin(), data_.end(), 0);  // the file is too short, which its check finds
    }
    const auto wrong = pattern_.wrong(data_, 0, version, 0);
    if (wrong == 0) return true;
    if (pattern_.wrong(data_, 0, version - 1, 0) > 0 && found_.mismatched++ == 0) {
      found_.first = fmt::format("{} of {} words of {} are of neither the old nor the new file", wrong, data_.size(),
                                 current().string());
    }
    return false;
  }

  const PositionWords pattern_;
  std::vector<std::uint64_t> data_;
  std::vector<int> writers_;
  std::uint64_t version_ = 0;
  double slowest_ = 0;
  Check found_;
};

}  // namespace

std::unique_ptr<Work> make_visible(const Spec& spec) { return std::make_unique<Visible>(spec); }

}  // namespace shakedown::storage
