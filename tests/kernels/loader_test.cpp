// The data loader on the host: the order of packed documents, which depends on nothing but the seed and the step, and
// each way in which a file of tokens can be wrong.
#include "kernels/loader/loader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>

#include "base/files.hpp"
#include "base/temporary_folder.hpp"
#include "kernels/loader/measured_loader.hpp"

namespace shakedown::loader {
namespace {

constexpr std::size_t seq = 256;

class DataLoader : public testing::Test {
 protected:
  void write() const {
    const auto file = make_corpus(folder_.path(), made_);
    std::filesystem::remove(path_);
    std::filesystem::copy_file("/proc/self/fd/" + std::to_string(file.get()), path_);
  }
  DataLoader() {
    write();
    corpus_.emplace(path_);
  }

  /// Returns the tokens of `steps` steps, of all ranks in turn.
  std::vector<Token> tokens(std::size_t batch, int ranks, int workers, std::uint64_t first, std::uint64_t steps) const {
    std::vector<std::vector<std::vector<Token>>> by_rank;
    for (int rank = 0; rank < ranks; ++rank)
      by_rank.push_back(of_rank({batch, seq, 1, rank, ranks}, workers, first, steps));
    std::vector<Token> all;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (const auto& rank : by_rank) all.insert(all.end(), rank[step].begin(), rank[step].end());
    }
    return all;
  }

  std::vector<std::vector<Token>> of_rank(const Part& part, int workers, std::uint64_t first,
                                          std::uint64_t steps) const {
    constexpr std::size_t prefetch = 3;
    std::vector<Token> memory(prefetch * part.batch * part.seq);
    std::vector<std::span<Token>> slots;
    for (std::size_t i = 0; i < prefetch; ++i)
      slots.push_back(std::span(memory).subspan(i * part.batch * part.seq, part.batch * part.seq));
    Loader loader(*corpus_, part, workers, slots, first);
    std::vector<std::vector<Token>> all;
    for (std::uint64_t step = 0; step < steps; ++step) {
      if (step == 2) loader.pause();
      loader.resume();
      const auto slot = loader.take();
      if (!slot) throw InputError(loader.error());
      all.emplace_back(slots[*slot].begin(), slots[*slot].end());
      loader.release();
    }
    return all;
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "tokens";
  const MadeCorpus made_{.documents = 40};
  std::optional<Corpus> corpus_;
};

TEST_F(DataLoader, ReadsEachDocumentOfAnEpochOnceAndInTheOrderOfTheSeed) {
  const Packing packing(*corpus_, seq, 1, 0);
  const auto all = tokens(1, 1, 2, 0, packing.sequences());
  std::vector<Token> stream;
  for (const auto document : shuffled(made_.documents, 1, 0)) {
    for (std::size_t i = 0; i < made_.length(document); ++i) stream.push_back(made_.token(document, i));
    stream.push_back(end_of_document);
  }
  stream.resize(stream.size() / seq * seq);
  EXPECT_EQ(all, stream);
  const auto order = shuffled(made_.documents, 1, 0);
  EXPECT_EQ(std::set(order.begin(), order.end()).size(), made_.documents);
}

TEST_F(DataLoader, GivesTheSameBatchesForAnyNumberOfWorkersAndRanks) {
  const auto one = tokens(4, 1, 1, 0, 12);
  EXPECT_EQ(tokens(4, 1, 5, 0, 12), one);
  EXPECT_EQ(tokens(2, 2, 2, 0, 12), one);
  EXPECT_EQ(tokens(1, 4, 1, 0, 12), one);
}

TEST_F(DataLoader, ContinuesAtAnyStepAcrossEpochs) {
  const auto per_epoch = Packing(*corpus_, seq, 1, 0).sequences();
  const auto whole = tokens(2, 1, 3, 0, per_epoch);  // two epochs
  for (const std::uint64_t step :
       {std::uint64_t{1}, static_cast<std::uint64_t>(per_epoch / 2), static_cast<std::uint64_t>(per_epoch - 3)}) {
    const auto rest = tokens(2, 1, 3, step, per_epoch - step);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + static_cast<std::ptrdiff_t>(step * 2 * seq)))
        << "from step " << step;
  }
  EXPECT_NE(shuffled(made_.documents, 1, 0), shuffled(made_.documents, 1, 1)) << "each epoch has another order";
  EXPECT_NE(shuffled(made_.documents, 1, 0), shuffled(made_.documents, 2, 0)) << "so has another seed";
}

TEST_F(DataLoader, RefusesFilesThatAreNotWhole) {
  const auto error_after = [&](const auto& change) {
    write();
    change();
    return input_error_of([&] { Corpus(path_).read(0, 0, {}); });
  };
  EXPECT_EQ(error_after([] {}), "");
  EXPECT_NE(error_after([&] { std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1); }), "");
  EXPECT_NE(error_after([&] { std::filesystem::resize_file(path_, 100); }), "") << "inside the places of documents";
  EXPECT_NE(error_after([&] { std::filesystem::resize_file(path_, 0); }), "");
  EXPECT_NE(error_after([&] { std::ofstream(path_) << std::string(4096, 'x'); }), "") << "another file";
  EXPECT_NE(error_after([&] { std::filesystem::remove(path_); }), "");
}

TEST_F(DataLoader, ReportsAFileThatIsCutWhileItIsRead) {
  std::filesystem::resize_file(path_, 2000);
  EXPECT_NE(input_error_of([&] { tokens(1, 1, 2, 0, 4); }), "");
}

TEST_F(DataLoader, RefusesDocumentsShorterThanASequence) {
  const auto long_sequence = made_.documents * 2048;
  EXPECT_NE(input_error_of([&] { of_rank({1, long_sequence, 1, 0, 1}, 1, 0, 1); }), "");
}

/// The measured loader, by the interface of the benchmarks.
std::unique_ptr<Work> prepared(const LoaderSpec& spec) {
  auto device = open_device(Backend::host, {});
  return device->prepare(spec);
}

TEST(MeasuredDataLoader, VerifiesEachTokenOnTheDevice) {
  const TemporaryFolder folder;
  const auto work = prepared({.workers = 2,
                              .prefetch = 3,
                              .batch = 2,
                              .seq = 100,
                              .batches = 5,
                              .documents = 30,
                              .folder = folder.path().string()});
  Alone group;
  work->connect(group);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "its file has no name";
  work->reset();
  EXPECT_FALSE(work->verify().passed()) << "nothing was loaded";
  for (int i = 0; i < 3; ++i) {
    work->stage(1);
    work->enqueue();
    const auto check = work->verify();
    EXPECT_TRUE(check.passed()) << check.first;
    EXPECT_EQ(check.compared, 201U) << "the last batch, and the checksum of all";
  }
  work->corrupt();
  EXPECT_EQ(work->verify().mismatched, 1U);
}

/// Memory of a device that damages one batch.
class DamagingMemory final : public BatchMemory {
 public:
  explicit DamagingMemory(std::size_t damaged) : damaged_(damaged) {}

  std::span<Token> slot(std::size_t i) override { return std::span(slots_).subspan(i * 100, 100); }
  void send(std::size_t i) override {
    std::ranges::copy(slot(i), device_.begin());
    if (sent_++ == damaged_) device_[7] ^= 4;
    sum_ += checksum_of(device_);
  }
  std::vector<Token> received() override { return device_; }
  std::uint64_t sum() override { return sum_; }
  void poison() override { sum_ = 0; }
  void flip_one_bit() override {}

 private:
  std::size_t damaged_, sent_ = 0;
  std::uint64_t sum_ = 0;
  std::vector<Token> slots_ = std::vector<Token>(200), device_ = std::vector<Token>(100);
};

TEST(MeasuredDataLoader, FindsADamagedBatchBeforeTheLast) {
  const TemporaryFolder folder;
  for (const std::size_t damaged : {std::size_t{2}, std::size_t{100}}) {
    const LoaderSpec spec{.workers = 1,
                          .prefetch = 2,
                          .batch = 1,
                          .seq = 100,
                          .batches = 5,
                          .documents = 30,
                          .folder = folder.path().string()};
    MeasuredLoader work(spec, std::make_unique<DamagingMemory>(damaged));
    Alone group;
    work.connect(group);
    work.reset();
    work.enqueue();
    EXPECT_EQ(work.verify().mismatched, damaged < 5 ? 1U : 0U);
  }
}

TEST(MeasuredDataLoader, SaysWhyAFolderCannotBeUsed) {
  const auto work = prepared({.batch = 1, .seq = 100, .documents = 4, .folder = "/nowhere"});
  Alone group("nodea");
  work->connect(group);
  EXPECT_TRUE(work->obstacle().starts_with("rank 0 (nodea): /nowhere: ")) << work->obstacle();
  work->reset();
  work->enqueue();
  EXPECT_FALSE(work->verify().passed());
}

}  // namespace
}  // namespace shakedown::loader
