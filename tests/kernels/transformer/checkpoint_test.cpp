// Checkpoints on the host: training that resumes from one is bitwise equal, any damage to its files gives a one-line
// error, and the previous checkpoint stays intact.
#include "kernels/transformer/checkpoint.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>

#include "base/files.hpp"
#include "kernels/block_io/block_file.hpp"
#include "kernels/check.hpp"
#include "kernels/own_folder.hpp"
#include "tests/kernels/transformer/host_step.hpp"
#include "tests/kernels/transformer/ranks.hpp"

namespace shakedown::checkpoint_test {
namespace {

namespace fs = std::filesystem;
using training::AdamW;
using training::Checkpoint;
using training::Shard;
using training::StepShape;

constexpr AdamW update{.lr = 0.01};

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() {
    std::random_device random;
    folder_ = fs::temp_directory_path() / ("shakedown-test-" + std::to_string(random()) + std::to_string(random()));
    fs::create_directory(folder_);
  }
  ~Checkpoints() override { fs::remove_all(folder_); }

  template <class T>
  static void run(HostStep<T>& host, int steps) {
    for (int i = 0; i < steps; ++i) host.step.run(update);
  }
  template <class T>
  void write(HostStep<T>& host) {
    Checkpoint(host.ops, host.step, host.group).write(folder_);
  }
  template <class T>
  void read(HostStep<T>& host) {
    Checkpoint(host.ops, host.step, host.group).read(folder_);
  }
  /// Returns the error of reading.
  template <class T>
  std::string refusal(HostStep<T>& host) {
    return without_names(input_error_of([&] { read(host); }));
  }
  std::string without_names(std::string text) const {
    for (auto at = text.find(folder_); at != std::string::npos; at = text.find(folder_))
      text.erase(at, folder_.string().size() + 1);
    if (const auto id = text.find("checkpoint.");
        id != std::string::npos && text.compare(id, 15, "checkpoint.json") != 0) {
      text.erase(id + 11, text.find(".rank", id) - id - 11);
    }
    return text;
  }
  std::vector<std::string> files() const { return names_in(folder_).value(); }
  fs::path data_file() const {
    for (const auto& name : files()) {
      if (name.find(".rank") != std::string::npos) return folder_ / name;
    }
    throw std::logic_error("no file of a rank");
  }
  static void flip(const fs::path& file, std::size_t at) {
    std::fstream data(file, std::ios::in | std::ios::out | std::ios::binary);
    data.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(data.get() ^ 4);
    data.seekp(static_cast<std::streamoff>(at));
    data.put(byte);
  }
  std::string content(const fs::path& file) const { return read_file(file); }

  /// Returns the parameters after the steps, on `ranks` ranks that shard the state in this way. Optionally reads a
  /// checkpoint before and writes one after.
  std::vector<float> trained(StepShape shape, int ranks, Shard shard, int steps, bool reads, bool writes) {
    std::vector<float> parameters;
    shape.ranks = ranks;
    run_ranks(ranks, [&](Group& group) {
      auto mine = shape;
      mine.rank = group.rank();
      mine.shard = shard;
      HostStep<float> host(mine, 1, &group);
      if (reads) read(host);
      run(host, steps);
      if (writes) write(host);
      auto all = host.parameters();
      if (group.rank() == 0) parameters = std::move(all);
    });
    return parameters;
  }

  fs::path folder_;
};

TEST_F(Checkpoints, LetTenStepsFollowTenAsIfTheyWereTwentyForEveryModel) {
  auto adapters = ragged_shape(), in_bf16 = qwen2_shape();
  in_bf16.masters = DType::bf16;
  for (const auto& shape : {gpt2_shape(), encoder_shape(), qwen2_shape(), adapters, in_bf16}) {
    HostStep<double> whole(shape), first(shape), second(shape);
    run(whole, 20);
    run(first, 10);
    write(first);
    run(second, 3);  // to different weights
    read(second);
    EXPECT_EQ(second.step.steps(), 10u);
    EXPECT_EQ(second.parameters(), first.parameters());
    run(second, 10);
    EXPECT_EQ(second.parameters(), whole.parameters());
    EXPECT_EQ(second.step.records().size(), 10u);
    EXPECT_EQ(second.step.records().back().updated.checksum, whole.step.records().back().updated.checksum);
  }
}

TEST_F(Checkpoints, LetTenStepsFollowTenAsIfTheyWereTwentyHoweverRanksShareTheState) {
  for (const auto shard : {Shard::none, Shard::optimizer, Shard::weights}) {
    auto shape = qwen2_shape(4);  // more than the number of buffers that alternate
    shape.batch = 1;
    const auto whole = trained(shape, 3, shard, 20, false, false);
    trained(shape, 3, shard, 10, false, true);
    EXPECT_EQ(trained(shape, 3, shard, 10, true, false), whole) << name(shard);
  }
}

/// The same tokens on a power of two of ranks give the same bits, because scaling the gradients needs no rounding.
TEST_F(Checkpoints, LetAnotherNumberOfRanksGoOnInAnotherWay) {
  struct Way {
    int ranks;
    Shard shard;
  };
  const auto whole = trained(gpt2_shape(), 1, Shard::none, 8, false, false);
  for (const auto& [ranks, shard] : {Way{1, Shard::none}, Way{2, Shard::none}, Way{4, Shard::weights}}) {
    trained(gpt2_shape(), ranks, shard, 4, false, true);
    EXPECT_EQ(files().size(), static_cast<std::size_t>(ranks) + 1) << "those of the checkpoint before are gone";
    for (const auto& to :
         {Way{1, Shard::none}, Way{4, Shard::none}, Way{2, Shard::optimizer}, Way{4, Shard::weights}}) {
      EXPECT_EQ(trained(gpt2_shape(), to.ranks, to.shard, 4, true, false), whole)
          << name(shard) << " on " << ranks << " ranks, then " << name(to.shard) << " on " << to.ranks;
    }
  }
}

TEST_F(Checkpoints, OfAStateInBf16GoOnOnAnotherNumberOfRanks) {
  auto shape = gpt2_shape();
  shape.masters = DType::bf16;
  const auto whole = trained(shape, 1, Shard::none, 8, false, false);
  trained(shape, 4, Shard::weights, 4, false, true);
  EXPECT_EQ(trained(shape, 1, Shard::none, 4, true, false), whole);
  trained(shape, 1, Shard::none, 4, false, true);
  EXPECT_EQ(trained(shape, 2, Shard::weights, 4, true, false), whole);
  HostStep<float> in_f32(gpt2_shape());
  EXPECT_NE(refusal(in_f32).find("masters"), std::string::npos);
}

TEST_F(Checkpoints, OfAStateOnTheHostGoOnWithOneOnTheDevice) {
  auto on_host = gpt2_shape();
  on_host.state = training::StateMemory::host;
  const auto whole = trained(gpt2_shape(), 1, Shard::none, 8, false, false);
  trained(on_host, 1, Shard::none, 4, false, true);
  EXPECT_EQ(trained(gpt2_shape(), 1, Shard::none, 4, true, false), whole);
  trained(gpt2_shape(), 1, Shard::none, 4, false, true);
  EXPECT_EQ(trained(on_host, 2, Shard::weights, 4, true, false), whole);
}

TEST_F(Checkpoints, AreReadOnNumbersOfRanksThatDivideNothing) {
  trained(encoder_shape(), 3, Shard::weights, 2, false, true);
  const auto there = trained(encoder_shape(), 3, Shard::weights, 0, true, false);
  EXPECT_EQ(trained(encoder_shape(), 2, Shard::optimizer, 0, true, false), there);
  EXPECT_EQ(trained(encoder_shape(), 5, Shard::none, 0, true, false), there);
}

/// Blocks of a file end inside runs and inside the vectors of 16 bytes of their digests.
TEST_F(Checkpoints, OfSeveralBlocksComeBackAndTheirDigestsAreThoseOfWholeArrays) {
  auto shape = gpt2_shape();
  shape.model.vocab = 70001;
  const auto there = trained(shape, 1, Shard::none, 1, false, true);
  const auto bytes = content(data_file());
  ASSERT_GT(bytes.size(), 2 * block_io::block_bytes);
  const auto document = nlohmann::json::parse(content(folder_ / "checkpoint.json"));
  const auto& digests = document["by_rank"][0][0]["digests"];
  const auto array = bytes.size() / training::state_arrays;
  for (std::size_t i = 0; i < training::state_arrays; ++i) {
    const auto part = std::as_bytes(std::span(bytes)).subspan(i * array, array);
    EXPECT_EQ(digests[i].get<std::uint64_t>(), digest_of(part)) << i;
  }
  EXPECT_EQ(trained(shape, 3, Shard::weights, 0, true, true), there);
  EXPECT_EQ(trained(shape, 2, Shard::optimizer, 0, true, false), there);
  flip(data_file(), fs::file_size(data_file()) - 1);
  HostStep<float> host(shape);
  EXPECT_NE(refusal(host), "");
}

TEST_F(Checkpoints, AFolderThatIsGoneGivesOneLine) {
  HostStep<float> host(gpt2_shape());
  write(host);
  fs::remove_all(folder_);
  for (const auto& text : {refusal(host), input_error_of([&] { write(host); })}) {
    EXPECT_NE(text, "");
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

TEST_F(Checkpoints, HoldEveryValueOnce) {
  const auto shape = gpt2_shape();
  trained(shape, 3, Shard::optimizer, 1, false, true);
  std::size_t bytes = 0;
  for (const auto& name : files()) {
    if (name != "checkpoint.json") bytes += fs::file_size(folder_ / name);
  }
  EXPECT_EQ(bytes, training::checkpoint_bytes(shape, sizeof(float)));
  EXPECT_EQ(bytes, 3 * sizeof(float) * parameters(shape.model, shape.lora).total());
}

TEST_F(Checkpoints, RefuseInOneLineWhatTheyAreNot) {
  HostStep<float> host(gpt2_shape());
  EXPECT_EQ(refusal(host).rfind("checkpoint.json: ", 0), 0U);
  write(host);
  auto larger = gpt2_shape();
  larger.model.intermediate = 52;
  HostStep<float> foreign(larger);
  EXPECT_EQ(refusal(foreign), "checkpoint.json: is of another model: intermediate is 48 there, but here 52");
  HostStep<double> precise(gpt2_shape());
  EXPECT_TRUE(refusal(precise).ends_with(" here f64"));
  auto adapters = qwen2_shape();
  adapters.trains = training::Trains::adapters;
  adapters.lora = ragged_shape().lora;
  HostStep<float> whole(qwen2_shape()), some(adapters);
  write(whole);
  EXPECT_NE(refusal(some), "");
  EXPECT_EQ(refusal(whole), "");
}

TEST_F(Checkpoints, RefuseInOneLineWhatIsDamaged) {
  HostStep<float> host(gpt2_shape());
  run(host, 2);
  const auto size = training::checkpoint_bytes(gpt2_shape(), sizeof(float));
  for (const std::size_t place : {std::size_t{0}, size / 2, size - 1}) {
    write(host);
    flip(data_file(), place);
    EXPECT_NE(refusal(host).find("not what was written (digest "), std::string::npos) << place;
  }
  write(host);
  fs::resize_file(data_file(), size - 4);
  EXPECT_EQ(refusal(host).rfind(
                "checkpoint..rank0: has " + std::to_string(size - 4) + " of " + std::to_string(size) + " bytes", 0),
            0U);
  write(host);
  const auto manifest = folder_ / "checkpoint.json";
  auto text = content(manifest);
  const auto steps = text.find("\"steps\":2");
  ASSERT_NE(steps, std::string::npos);
  text[steps + 8] = '3';
  std::ofstream(manifest) << text;
  EXPECT_EQ(refusal(host).rfind("checkpoint.json: is not ", 0), 0U);
  fs::resize_file(manifest, text.size() / 2);
  EXPECT_EQ(refusal(host).rfind("checkpoint.json: is truncated", 0), 0U);
}

TEST_F(Checkpoints, RefuseFilesOfTwoThatAreMixed) {
  HostStep<float> host(gpt2_shape());
  write(host);
  const auto manifest = content(folder_ / "checkpoint.json");
  const auto before = data_file();
  run(host, 1);
  write(host);
  const auto now = data_file();
  // The old manifest, whose file is gone; then the new data under the old name.
  std::ofstream(folder_ / "checkpoint.json") << manifest;
  EXPECT_TRUE(refusal(host).starts_with("checkpoint..rank0: ") && refusal(host).ends_with("No such file or directory"));
  fs::copy_file(now, before);
  EXPECT_NE(refusal(host).find("digest"), std::string::npos);
}

/// Simulates a full disk with a limit on the file size.
class FullDisk {
 public:
  explicit FullDisk(std::size_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    auto limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(Checkpoints, LeaveTheOneBeforeWholeWhereTheDiskIsFull) {
  HostStep<float> host(gpt2_shape());
  run(host, 2);
  write(host);
  const auto saved = host.parameters();
  const auto before = files();
  run(host, 2);
  const auto size = training::checkpoint_bytes(gpt2_shape(), sizeof(float));
  for (const std::size_t room : {size / 2, size - 1}) {
    const FullDisk full(room);
    EXPECT_TRUE(without_names(input_error_of([&] { write(host); })).ends_with("No space left on device"));
    EXPECT_EQ(files(), before) << "no file remains";
  }
  read(host);
  EXPECT_EQ(host.parameters(), saved);
  EXPECT_EQ(host.step.steps(), 2u);
}

TEST_F(Checkpoints, LeaveTheOneBeforeWholeWhereOneRankHasAFullDisk) {
  trained(gpt2_shape(), 2, Shard::none, 2, false, true);
  const auto before = files();
  std::vector<std::string> answers(2);
  run_ranks(2, [&](Group& group) {
    auto shape = gpt2_shape();
    shape.ranks = 2;
    HostStep<float> host(shape, 1, &group);
    const auto elsewhere = group.rank() == 1 ? folder_ / "not there" : folder_;
    answers[static_cast<std::size_t>(group.rank())] =
        input_error_of([&] { Checkpoint(host.ops, host.step, group).write(elsewhere); });
  });
  EXPECT_EQ(answers[0], answers[1]) << "all ranks say the same";
  EXPECT_NE(answers[0].find("rank 1: "), std::string::npos) << answers[0];
  EXPECT_EQ(files(), before);
  EXPECT_EQ(trained(gpt2_shape(), 2, Shard::none, 0, true, false).size(),
            parameters(gpt2_shape().model, training::no_adapters).total());
}

TEST_F(Checkpoints, RefuseAFolderWithoutRoom) {
  /// Reports a terabyte for every array.
  class NoCopies final : public training::StateCopies {
    std::byte* staging() override { return nullptr; }
    void fetch(std::span<std::byte>, training::StateArray, std::size_t) override {}
    void bring(std::span<const std::byte>, training::StateArray, std::size_t) override {}
    void finish() override {}
  } copies;
  auto shape = gpt2_shape();
  shape.model.vocab = std::size_t{1} << 50;
  Alone group;
  const auto text = without_names(input_error_of([&] { write_checkpoint({shape, 4, 4, folder_}, group, copies, 1); }));
  EXPECT_NE(text.find("needs 4.32e+08 GB more"), std::string::npos) << text;
  EXPECT_TRUE(files().empty());
}

TEST_F(Checkpoints, AreGoneWhenTheyAreRemovedAndNothingElseIs) {
  std::ofstream(folder_ / "notes.txt") << "mine";
  std::ofstream(folder_ / "checkpoint.md") << "mine";
  HostStep<float> host(gpt2_shape());
  write(host);
  training::remove_checkpoint(folder_, host.group);
  EXPECT_EQ(files(), (std::vector<std::string>{"checkpoint.md", "notes.txt"}));
}

/// A process that has created a folder with a file in it, and runs until it is ended.
class Neighbour {
 public:
  explicit Neighbour(const fs::path& parent) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw std::runtime_error("pipe");
    process_ = fork();
    if (process_ == 0) {
      const OwnFolder own(parent, "checkpoint");
      std::ofstream(own.path() / "checkpoint.0123.rank0") << "values";
      if (::write(ends[1], "!", 1) != 1) _exit(1);
      pause();
    }
    char made = 0;
    if (::read(ends[0], &made, 1) != 1) throw std::runtime_error("no neighbour");
    for (const int end : ends) close(end);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  ~Neighbour() {
    if (process_ > 0) end();
  }
  void end() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_;
};

TEST_F(Checkpoints, OfAProcessThatDiedGoWithTheNextAndThoseOfALivingOneStay) {
  Neighbour lives(folder_), dies(folder_);
  dies.end();
  EXPECT_EQ(files().size(), 2u);
  {
    const OwnFolder own(folder_, "checkpoint");
    EXPECT_TRUE(fs::is_directory(own.path()));
    EXPECT_EQ(files().size(), 2u) << "ours and that of the living one";
  }
  ASSERT_EQ(files().size(), 1u) << "ours went with us";
  EXPECT_TRUE(fs::exists(folder_ / files().front() / "checkpoint.0123.rank0"));
  // The same on another host, whose processes cannot be seen from here.
  const auto name = files().front();
  const auto foreign = "shakedown-checkpoint-elsewhere-" + name.substr(name.size() - 16);
  fs::rename(folder_ / name, folder_ / foreign);
  lives.end();
  static_cast<void>(OwnFolder(folder_, "checkpoint"));
  EXPECT_EQ(files(), std::vector{foreign});
  fs::rename(folder_ / foreign, folder_ / name);
  static_cast<void>(OwnFolder(folder_, "checkpoint"));
  EXPECT_TRUE(files().empty());
}

TEST_F(Checkpoints, LeaveWhatOnlyLooksLikeTheirsAlone) {
  std::string own;
  { own = OwnFolder(folder_, "checkpoint").path(); }
  fs::create_directory(own);  // without a lock
  std::ofstream(folder_ / "shakedown-checkpoint-notes") << "mine";
  static_cast<void>(OwnFolder(folder_, "checkpoint"));
  EXPECT_EQ(files().size(), 2u);
}

}  // namespace
}  // namespace shakedown::checkpoint_test
