// Operations on shared storage with ranks that are threads: what is verified, which error each rank reports, and that
// no file stays.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <set>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/temporary_folder.hpp"
#include "kernels/block_io/block_file.hpp"
#include "kernels/block_io/block_io.hpp"
#include "kernels/storage/position_words.hpp"
#include "kernels/storage/spec.hpp"
#include "tests/kernels/transformer/ranks.hpp"

namespace shakedown::storage_test {
namespace {

namespace fs = std::filesystem;
using storage::Op;

constexpr int meeting = -42;  // in place of a file

/// A rank on a host of its own.
class HostRank final : public ThreadRank {
 public:
  HostRank(Shared& shared, int rank) : ThreadRank(shared, rank), host_("node" + std::to_string(rank)) {
    for (int r = 0; r < size(); ++r) hosts_.push_back("node" + std::to_string(r));
  }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  Group& on_host() override { return host_; }

 private:
  std::vector<std::string> hosts_;
  Alone host_;
};

class Storage : public testing::Test {
 protected:
  using Step = std::function<void(Work&, int rank)>;

  /// What a rank found.
  struct Outcome {
    std::string refused, obstacle;
    Check check;
    Metrics metrics;
  };

  /// Runs three operations on each rank, and `between` before the check.
  std::vector<Outcome> outcomes(const storage::Spec& spec, int ranks = 2, const Step& between = nullptr) const {
    ThreadRank::Shared shared(ranks);
    std::vector<Outcome> found(static_cast<std::size_t>(ranks));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        HostRank group(shared, rank);
        found[static_cast<std::size_t>(rank)] = outcome(spec, group, between);
      });
    }
    threads.clear();
    return found;
  }

  static Outcome outcome(const storage::Spec& spec, Group& group, const Step& between) {
    Outcome own;
    const auto work = storage::prepare(spec);
    try {
      work->connect(group);
    } catch (const Unsupported& reason) {
      EXPECT_TRUE(reason.asked_for) << "a failure, not a waiver";
      own.refused = reason.what();
      return own;
    }
    work->reset();
    for (int i = 0; i < 3; ++i) {
      work->stage(1);
      group.barrier();
      work->enqueue();
      group.barrier();
    }
    if (between) between(*work, group.rank());
    group.barrier();
    own.obstacle = work->obstacle();
    if (own.obstacle.empty()) own.check = work->verify();
    own.metrics = work->metrics();
    group.barrier();
    return own;
  }

  bool is_empty() const { return names_in(folder_.path()) == std::vector<std::string>(); }

  TemporaryFolder folder_;
  std::string folder() const { return folder_.path(); }
  storage::Spec spec(Op op) const {
    const bool streams = op == Op::write || op == Op::read;
    return {op, folder(), streams ? std::size_t{5} << 20 : 0, op == Op::metadata ? 7 : 0};
  }
};

constexpr std::array all{Op::write, Op::read, Op::metadata, Op::visible};  // locks need ranks that are processes

TEST_F(Storage, KeysNameTheOperationAndItsSize) {
  EXPECT_EQ(key(storage::Spec{Op::read, "/x", 1 << 30}), "storage/op:read/bytes:1073741824");
  EXPECT_EQ(key(storage::Spec{Op::metadata, "/x", 0, 100000}), "storage/op:metadata/files:100000");
  EXPECT_EQ(key(storage::Spec{Op::lock, "/x"}), "storage/op:lock");
}

TEST_F(Storage, ARankReadsTheFileOfTheSameIndexOnTheNextHost) {
  const std::vector<std::string> hosts{"a", "b", "a", "b", "c"};
  const std::vector<int> expected{1, 4, 3, 4, 0};
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(storage::source_of(hosts, rank), expected[std::size_t(rank)]) << rank;
  EXPECT_EQ(storage::source_of({"a", "a"}, 0), 1);
  EXPECT_EQ(storage::source_of({"a", "a"}, 1), 0);
  EXPECT_EQ(storage::source_of({"a"}, 0), 0);
}

TEST_F(Storage, EachOperationIsVerifiedAndLeavesNoFile) {
  for (const auto op : all) {
    for (const int ranks : {1, 2, 3}) {
      if (op == Op::visible && ranks == 1) continue;
      for (const auto& own : outcomes(spec(op), ranks)) {
        EXPECT_EQ(own.refused + own.obstacle, "") << name(op);
        EXPECT_TRUE(own.check.passed()) << name(op) << ": " << own.check.first;
        const bool streams = op == Op::write || op == Op::read;
        EXPECT_GE(own.check.compared, streams ? (std::size_t{5} << 20) / 8 : 1);
      }
      EXPECT_TRUE(is_empty()) << name(op);
    }
  }
}

TEST_F(Storage, AChangedBitIsFoundByTheRankThatReadsTheFile) {
  const auto found = outcomes(spec(Op::write), 3, [](Work& work, int rank) {
    if (rank == 1) work.corrupt();
  });
  EXPECT_TRUE(found[1].check.passed() && found[2].check.passed());
  EXPECT_EQ(found[0].check.mismatched, 1u);
  EXPECT_NE(found[0].check.first.find("which rank 1 wrote"), std::string::npos) << found[0].check.first;
}

TEST_F(Storage, WordsDependOnPositionFileAndVersion) {
  const storage::PositionWords pattern;
  constexpr auto size = storage::PositionWords::chunk_bytes;
  std::vector<std::uint64_t> words(size / 4);
  pattern.fill(words, 1, 2, 3 * size);
  EXPECT_EQ(pattern.wrong(words, 1, 2, 3 * size), 0u);
  for (const auto& [file, version, block] : {std::array<std::uint64_t, 3>{0, 2, 3}, {1, 1, 3}, {1, 2, 4}}) {
    EXPECT_EQ(pattern.wrong(words, file, version, block * size), words.size());
  }
  std::swap(words[1], words[100]);
  EXPECT_EQ(pattern.wrong(words, 1, 2, 3 * size), 2u);
}

TEST_F(Storage, AFolderThatIsMissingFailsOnAllRanksWithOneLine) {
  const auto gone = folder() + "/gone";
  for (const auto op : all) {
    auto of_gone = spec(op);
    of_gone.folder = gone;
    for (const auto& own : outcomes(of_gone)) {
      EXPECT_TRUE(own.refused.starts_with("rank 0 (node0): " + gone + ": ")) << own.refused;
      EXPECT_EQ(own.refused.find('\n'), std::string::npos);
    }
  }
}

/// Removes what the operations have made.
void remove_content(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
}

TEST_F(Storage, AFolderThatVanishesDuringTheSamplesIsAnObstacleOnAllRanks) {
  for (const auto op : {Op::write, Op::read, Op::metadata}) {
    const auto found = outcomes(spec(op), 2, [&](Work& work, int rank) {
      if (rank == 0) remove_content(folder());
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      work.stage(1);
      work.enqueue();
    });
    for (const auto& own : found) {
      EXPECT_TRUE(own.obstacle.starts_with("rank ")) << own.obstacle;
      EXPECT_NE(own.obstacle.find("No such file or directory; "), std::string::npos) << own.obstacle;
    }
    EXPECT_TRUE(is_empty());
  }
}

/// Limits the size of the files of this process during its lifetime.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;
  ~SizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(Storage, AWriteThatFailsInTheMiddleSaysAfterHowManyBytesAndLeavesNoFile) {
  const SizeLimit limit(std::size_t{4} << 20);
  for (const auto& own : outcomes(spec(Op::write))) {
    EXPECT_NE(own.obstacle.find(" fails after "), std::string::npos) << own.obstacle;
    EXPECT_NE(own.obstacle.find(" of 5242880 bytes: File too large; "), std::string::npos) << own.obstacle;
  }
  EXPECT_TRUE(is_empty());
}

TEST_F(Storage, BothWaysToTransferBlocksMoveTheSameData) {
  constexpr std::size_t block = 4096, depth = block_io::BlockIo::depth;
  const auto path = folder_.path() / "file";
  std::vector<std::byte> out(depth * block), in(depth * block);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i / block + 1);
  std::ofstream(path).close();
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  std::array both{block_io::uring_io(), block_io::plain_io()};
  for (auto& io : both) {
    if (io == nullptr) continue;  // this build or kernel has no io_uring
    const auto start = [&](block_io::Direction direction, std::size_t slot, std::size_t offset) {
      auto& memory = direction == block_io::Direction::write ? out : in;
      io->start(file.get(), direction, {slot, std::span(memory).subspan(slot * block, block), offset});
    };
    for (const auto direction : {block_io::Direction::write, block_io::Direction::read}) {
      std::set<std::size_t> finished;
      for (std::size_t slot = 0; slot < depth; ++slot) start(direction, slot, slot * block);
      while (finished.size() < depth) ASSERT_TRUE(finished.insert(io->finish()).second) << io->name();
    }
    EXPECT_EQ(in, out) << io->name();
    // One of several transfers fails: then none is in progress, and others can be started.
    for (std::size_t slot = 0; slot < depth; ++slot) start(block_io::Direction::read, slot, (slot + 3) * block);
    const auto finish_all = [&] {
      for (std::size_t i = 0; i < depth; ++i) io->finish();
    };
    EXPECT_THROW(finish_all(), std::system_error) << io->name();
    start(block_io::Direction::read, 5, 0);
    EXPECT_EQ(io->finish(), 5u);
    EXPECT_EQ(in[5 * block], out[0]) << io->name();
    start(block_io::Direction::read, 0, 0);  // it ends before its memory
    io.reset();
    std::fill(in.begin(), in.end(), std::byte{0});
  }
}

/// Writes and reads a file of this size, from memory that begins `shift` bytes after a page.
void expect_a_file_comes_back(const fs::path& path, std::size_t bytes, std::size_t shift) {
  std::vector<std::byte> memory(block_io::staging_bytes + 2 * block_io::page_bytes);
  const auto place = reinterpret_cast<std::uintptr_t>(memory.data()) % block_io::page_bytes;
  auto* const staging = memory.data() + (block_io::page_bytes - place) + shift;
  const auto word = [](std::uint64_t at) { return static_cast<std::byte>(at * 7 + (at >> 12)); };
  const auto blocks = block_io::blocks_of(bytes);
  const auto io = block_io::fastest_io();
  auto out = block_io::BlockFile::open(path, O_WRONLY | O_CREAT | O_TRUNC);
  ASSERT_TRUE(out.has_value());
  ASSERT_TRUE(out->reserve(bytes));
  block_io::stream(*io, *out, block_io::Direction::write, blocks, staging, [&](auto to, const auto& block) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = word(block.offset + i);
  });
  EXPECT_EQ(fs::file_size(path), bytes);
  auto in = block_io::BlockFile::open(path, O_RDONLY);
  ASSERT_TRUE(in.has_value());
  std::size_t seen = 0, wrong = 0;
  block_io::stream(*io, *in, block_io::Direction::read, blocks, staging, [&](auto from, const auto& block) {
    for (std::size_t i = 0; i < from.size(); ++i) wrong += from[i] != word(block.offset + i) ? 1 : 0;
    seen += from.size();
  });
  EXPECT_EQ(seen, bytes);
  EXPECT_EQ(wrong, 0u);
}

TEST_F(Storage, AFileOfAnySizeComesBackAsItWasWritten) {
  const auto path = folder_.path() / "file";
  constexpr auto block = block_io::block_bytes, page = block_io::page_bytes;
  for (const auto bytes : {std::size_t{0}, std::size_t{1}, page, page + 2, block - 3, 9 * block + page + 5})
    expect_a_file_comes_back(path, bytes, 0);
}

TEST_F(Storage, MemoryThatDirectTransfersRefuseGoesThroughThePageCache) {
  expect_a_file_comes_back(folder_.path() / "file", 2 * block_io::block_bytes + 5, 1);
}

TEST_F(Storage, TransfersWithoutIoUringAreInProgressAtOnce) {
  const auto io = block_io::plain_io();
  std::array<std::byte, block_io::BlockIo::depth> memory{};
  for (std::size_t slot = 0; slot < memory.size(); ++slot) {
    io->start(meeting, block_io::Direction::read, {slot, std::span(memory).subspan(slot, 1), 0});
  }
  for (std::size_t i = 0; i < memory.size(); ++i) EXPECT_NO_THROW(io->finish());
}

}  // namespace
}  // namespace shakedown::storage_test

/// Replaces that of the C library in this program. A read of `meeting` ends when as many reads have begun as there are
/// blocks in transfer, and fails after ten seconds.
extern "C" ssize_t pread(int file, void* to, std::size_t bytes, off_t from) {
  if (file != shakedown::storage_test::meeting) return ::syscall(SYS_pread64, file, to, bytes, from);
  static std::latch all_have_begun(shakedown::block_io::BlockIo::depth);
  all_have_begun.count_down();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!all_have_begun.try_wait() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  if (all_have_begun.try_wait()) return static_cast<ssize_t>(bytes);
  errno = ETIMEDOUT;
  return -1;
}
