// Rows from examples, and prepared examples in a file.
#include "kernels/finetune/packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/temporary_folder.hpp"
#include "finetune_data.hpp"

namespace shakedown::finetune {
namespace {

/// Returns examples of 1 to 9 tokens; each token is 100 times the number of its example plus its place.
std::vector<Example> made(std::size_t count) {
  std::vector<Example> examples(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < 1 + i * 7 % 9; ++k) {
      examples[i].tokens.push_back(static_cast<std::int32_t>(100 * (i + 1) + k));
      examples[i].in_loss.push_back(k >= 2 || k == 0 ? 1 : 0);
    }
  }
  return examples;
}

TEST(FinetunePacking, TakesEachExampleOnceAndDividesNone) {
  const auto examples = made(50);
  const Packing packing(examples, {.seq = 16, .seed = 3, .padding = -5}, 0);
  std::set<std::int32_t> seen;
  for (std::size_t r = 0; r < packing.rows(); ++r) {
    const auto row = packing.row(r);
    ASSERT_EQ(row.tokens.size(), 16U);
    ASSERT_EQ(row.in_loss.size(), 16U);
    for (std::size_t i = 0; i < 16; ++i) {
      if (row.tokens[i] == -5) {
        EXPECT_EQ(row.in_loss[i], 0);
        continue;
      }
      const auto place = row.tokens[i] % 100;
      EXPECT_TRUE(seen.insert(row.tokens[i]).second);
      EXPECT_EQ(row.in_loss[i], place >= 2 ? 1 : 0);  // the first token of an example is not in the loss
      if (place > 0) {
        ASSERT_GT(i, 0U);
        EXPECT_EQ(row.tokens[i], row.tokens[i - 1] + 1);
      }
    }
  }
  std::size_t tokens = 0;
  for (const auto& example : examples) tokens += example.tokens.size();
  EXPECT_EQ(seen.size(), tokens);
  EXPECT_LT(packing.rows(), 25U);  // it packs
  EXPECT_EQ(packing.cut(), 0U);
}

TEST(FinetunePacking, OrdersByTheSeedAndTheEpoch) {
  const auto examples = made(50);
  const auto order = [&](const PackingOptions& options, std::uint64_t epoch) {
    const Packing packing(examples, options, epoch);
    std::vector<std::int32_t> firsts;
    for (std::size_t r = 0; r < packing.rows(); ++r) firsts.push_back(packing.row(r).tokens[0]);
    return firsts;
  };
  const PackingOptions alone{.seq = 16, .pack = false, .seed = 3};
  const auto first = order(alone, 0);
  EXPECT_EQ(first.size(), examples.size());
  EXPECT_EQ(first, order(alone, 0));
  EXPECT_NE(first, order(alone, 1));
  EXPECT_NE(first, order({.seq = 16, .pack = false, .seed = 4}, 0));
  const auto plain = order({.seq = 16, .shuffle = false, .pack = false}, 1);
  EXPECT_TRUE(std::is_sorted(plain.begin(), plain.end()));
}

TEST(FinetunePacking, CutsExamplesThatAreLongerThanARow) {
  const auto examples = made(50);
  const Packing packing(examples, {.seq = 4, .shuffle = false}, 0);
  const auto longer =
      std::count_if(examples.begin(), examples.end(), [](const Example& e) { return e.tokens.size() > 4; });
  EXPECT_EQ(packing.cut(), static_cast<std::size_t>(longer));
  EXPECT_THROW(Packing(examples, {.seq = 0}, 0), std::invalid_argument);
  EXPECT_EQ(Packing({}, {.seq = 4}, 0).rows(), 0U);
  const std::vector<Example> late{{{1, 2, 3, 4, 5, 6}, {1, 0, 0, 0, 1, 1}}};
  EXPECT_EQ(Packing(late, {.seq = 6}, 0).targets(), 2U);
  EXPECT_EQ(Packing(late, {.seq = 5}, 0).targets(), 1U);
  EXPECT_EQ(Packing(late, {.seq = 4}, 0).targets(), 0U);
}

TEST(FinetunePacking, ReadsWhatItHasPrepared) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "train.prepared";
  auto examples = made(50);
  examples[7] = {};  // an empty example is kept
  write_prepared(path, examples, "origin");
  EXPECT_TRUE(is_prepared(path));
  EXPECT_FALSE(is_prepared(stored("chat.jsonl")));
  EXPECT_FALSE(is_prepared(folder.path() / "absent"));
  const auto read = read_prepared(path, "origin");
  ASSERT_EQ(read.size(), examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    EXPECT_EQ(read[i].tokens, examples[i].tokens);
    EXPECT_EQ(read[i].in_loss, examples[i].in_loss);
  }
  const auto error = [&] { return input_error_of([&] { read_prepared(path, "origin"); }); };
  EXPECT_NE(input_error_of([&] { read_prepared(path, "other"); }).find("other data"), std::string::npos);
  const auto good = read_file(path);
  auto damaged = good;
  damaged[damaged.size() - 3] ^= 1;
  write_file(path, damaged);
  EXPECT_NE(error().find("is damaged"), std::string::npos) << error();
  write_file(path, good.substr(0, good.size() - 1));
  EXPECT_NE(error().find("train.prepared: tensor"), std::string::npos) << error();
  std::filesystem::copy_file(stored("lora_trained.safetensors"), path,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(error().find("prepared examples"), std::string::npos) << error();
}

}  // namespace
}  // namespace shakedown::finetune
