// Ranks of several hosts take one lock (fcntl) in turns. With the lock, each adds 1 to a number in the file. If the
// lock admits two ranks at once, or a rank reads an old number, the sum is too small.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/archive.hpp"
#include "base/descriptor.hpp"
#include "base/timed_call.hpp"
#include "kernels/block_io/block_io.hpp"
#include "kernels/storage/storage_work.hpp"

namespace shakedown::storage {

namespace {

/// With more ranks, the last of a queue would wait longer than the limit of a call on a file.
constexpr std::size_t max_ranks = 16;
constexpr std::chrono::microseconds held{200};

class Lock final : public StorageWork {
 public:
  using StorageWork::StorageWork;
  ~Lock() override { remove_files(); }

 protected:
  void prepare_files() override {
    if (group().rank() != 0) return;
    const Descriptor file(::open(path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    require(file.is_open(), path(), "cannot be created");
    put(file.get(), 0);
  }

  void run() override {
    if (takes_part()) attempt([&] { take_turns(); });
    group().barrier();
  }

  Check check() override {
    const auto taken = gather(group(), taken_);
    std::uint64_t expected = 0, found = 0;
    for (const auto count : taken) expected += count;
    const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
    require(file.is_open(), path(), "cannot be opened");
    lock(file.get(), F_RDLCK);  // shared, so that no queue of ranks forms
    found = get(file.get());
    lock(file.get(), F_UNLCK);
    if (found == expected) return {expected, 0, ""};
    return {
        expected, 1,
        fmt::format("{} has the number {} after {} ranks with the lock added 1: several had it at once, or read an old "
                    "number",
                    path().string(), found, expected)};
  }

  void remove_files() noexcept override {
    std::error_code error;
    if (!folder().empty() && group().rank() == 0) std::filesystem::remove(path(), error);
  }

 private:
  std::filesystem::path path() const { return folder() / "lock_of_all"; }

  /// True for the first rank of each host. If there is one host, it is true for all of its ranks.
  bool takes_part() const {
    const auto& hosts = group().hosts();
    const bool one_host = std::adjacent_find(hosts.begin(), hosts.end(), std::not_equal_to<>()) == hosts.end();
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < hosts.size() && ranks.size() < max_ranks; ++rank) {
      const auto end = hosts.begin() + static_cast<std::ptrdiff_t>(rank);
      if (one_host || std::find(hosts.begin(), end, hosts[rank]) == end) ranks.push_back(static_cast<int>(rank));
    }
    return std::find(ranks.begin(), ranks.end(), group().rank()) != ranks.end();
  }

  void take_turns() {
    const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
    require(file.is_open(), path(), "cannot be opened");
    for (int i = 0; i < locks_of_rank; ++i) {
      lock(file.get(), F_WRLCK);
      const auto before = get(file.get());
      std::this_thread::sleep_for(held);  // without a pause, two ranks with the lock would seldom meet
      put(file.get(), before + 1);
      lock(file.get(), F_UNLCK);
      ++taken_;
    }
  }

  void lock(int file, short kind) const {
    const TimedCall call("lock", path());
    struct flock range {};
    range.l_type = kind;
    range.l_whence = SEEK_SET;
    int result = 0;
    do {
      result = ::fcntl(file, F_SETLKW, &range);
    } while (result != 0 && errno == EINTR);
    require(result == 0, path(), "cannot be locked");
  }

  std::uint64_t get(int file) const {
    std::uint64_t value = 0;
    move(file, block_io::Direction::read, value);
    return value;
  }
  void put(int file, std::uint64_t value) const { move(file, block_io::Direction::write, value); }
  void move(int file, block_io::Direction direction, std::uint64_t& value) const {
    try {
      block_io::transfer_all(file, direction, std::as_writable_bytes(std::span(&value, 1)), 0);
    } catch (const std::system_error& error) {
      refuse(path(), fmt::format("{} fails", name(direction)), error.code());
    }
  }

  std::uint64_t taken_ = 0;  // by this rank
};

}  // namespace

std::unique_ptr<Work> make_lock(const Spec& spec) { return std::make_unique<Lock>(spec); }

}  // namespace shakedown::storage
