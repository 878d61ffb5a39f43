// The properties of a valid series of training steps, and the ranks that the check reports otherwise.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/transformer/measured_step.hpp"

namespace shakedown::training::step_check_test {
namespace {

constexpr Expected expected{.steps = 5, .first_loss = 10, .same_bits = true};

/// Returns five valid steps on each rank.
std::vector<std::vector<Record>> good(std::size_t ranks) {
  std::vector<Record> records;
  for (std::uint64_t step = 0; step < 5; ++step) {
    records.push_back({10 - 0.1 * static_cast<double>(step),
                       {1, 0, 7 + step, 0.5},
                       {1, 0, 8 + step, 0.5 * static_cast<double>(ranks)},
                       {1, 0, 9 + step}});
  }
  return std::vector<std::vector<Record>>(ranks, records);
}

std::string complaint(const std::vector<std::vector<Record>>& by_rank, int rank, const Expected& e = expected) {
  const auto check = check_steps(by_rank, rank, e);
  EXPECT_GT(check.compared, 0u);
  EXPECT_EQ(check.passed(), check.first.empty());
  return check.first;
}

const std::string of_parameters = ": checksum of its parameters";

TEST(StepCheck, PassesGoodSteps) {
  for (const std::size_t ranks : {1u, 2u, 5u}) {
    for (int rank = 0; rank < static_cast<int>(ranks); ++rank) EXPECT_EQ(complaint(good(ranks), rank), "");
  }
}

TEST(StepCheck, HearsOfWhatAModelHasInCommonFromAllRanks) {
  Expected together = expected;
  together.together = 2;
  auto by_rank = good(2);
  by_rank[1][0].shared.checksum = 1;
  std::vector<std::string> messages;
  for (const auto& records : by_rank) messages.push_back(packed(records));
  EXPECT_NE(complaint(unpacked_by_rank<std::vector<Record>>(messages), 1, together), "");
}

TEST(StepCheck, PassesNothingWhenNothingRan) {
  EXPECT_FALSE(check_steps(std::vector<std::vector<Record>>(2), 0, expected).passed());
}

TEST(StepCheck, ComparesNoGradientsWhereAttentionIsNotDeterministic) {
  Expected any_bits = expected;
  any_bits.deterministic = false;
  auto records = good(2);
  records[1][2].local.checksum = 1;
  EXPECT_EQ(complaint(records, 1, any_bits), "");
  EXPECT_NE(complaint(records, 1), "");
  auto sums = records, parameters = records, losses = records;
  sums[1][2].reduced.checksum = 1;
  EXPECT_NE(complaint(sums, 1, any_bits), "") << "the sum still has the same bits on all ranks";
  parameters[1][2].updated.checksum = 1;
  EXPECT_NE(complaint(parameters, 1, any_bits), "");
  losses[1][0].loss = 20;
  EXPECT_NE(complaint(losses, 1, any_bits), "");
}

TEST(StepCheck, MissesAStepThatDidNotRun) {
  auto records = good(2);
  records[1].pop_back();
  EXPECT_EQ(complaint(records, 1), "4 steps have left a record, expected 5");
  EXPECT_EQ(complaint(records, 0), "");
}

TEST(StepCheck, NamesTheFirstStepAndOnlyTheRankWhoseGradientIsNotFinite) {
  auto records = good(4);
  records[2][3].local.non_finite = 12;
  records[2][3].loss = NAN;
  for (auto& rank : records) {
    for (std::size_t step = 3; step < 5; ++step) rank[step].reduced = {NAN, 40, 1};
  }
  for (auto& rank : records) rank[4].local.non_finite = 1;  // by then all ranks have it
  EXPECT_TRUE(complaint(records, 2).starts_with("step 4: loss nan, 12 values of "));
  for (const int rank : {0, 1, 3}) EXPECT_EQ(complaint(records, rank), "") << rank;
}

TEST(StepCheck, SeesALossOrANormThatOverflows) {
  auto records = good(1);
  records[0][0].loss = INFINITY;
  EXPECT_NE(complaint(records, 0).find("step 1: loss inf"), std::string::npos);
  records = good(1);
  records[0][2].local.squared_norm = INFINITY;
  EXPECT_NE(complaint(records, 0).find("step 3: loss 9.8, the norm"), std::string::npos);
}

TEST(StepCheck, BlamesNobodyAloneWhenOnlyTheSumIsNotFinite) {
  auto records = good(2);
  for (auto& rank : records) rank[1].reduced.non_finite = 1;
  for (const int rank : {0, 1}) {
    EXPECT_NE(complaint(records, rank).find("step 2: the sum"), std::string::npos);
  }
}

TEST(StepCheck, LetsRanksThatComputeAModelTogetherVoteOnWhatTheyHaveInCommonAlone) {
  auto together = expected;
  together.together = 2;
  auto records = good(4);  // two models of two parts
  for (const std::size_t rank : {1u, 3u}) {
    for (auto& record : records[rank]) record.local.checksum = record.reduced.checksum = record.updated.checksum = 5;
  }
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(complaint(records, rank, together), "") << rank;
  records[3][2].updated.checksum = 6;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(complaint(records, rank, together).find("step 3" + of_parameters) == 0, rank % 2 == 1) << rank;
  }
  records[3][2].updated.checksum = 5;
  records[2][3].shared.checksum = 1;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(complaint(records, rank, together).find("step 4: checksum ") == 0, rank >= 2) << rank;
  }
  // With more than two models, the order of a sum may differ.
  records.insert(records.end(), {records[0], records[1]});
  for (auto& rank : records) {
    for (auto& record : rank) record.reduced.projection = 3;
  }
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(complaint(records, rank, together), "") << rank;
}

TEST(StepCheck, LetsTheRanksVoteOnTheirGradients) {
  auto records = good(3);
  records[1][2].local.checksum = 0xabc;
  records[1][3].local.checksum = 0xdef;
  for (auto& rank : records) rank[2].reduced.checksum = 5;
  EXPECT_EQ(complaint(records, 1),
            "step 3: checksum of its gradient is abc, expected 9 as on 2 other ranks (silent data corruption)");
  EXPECT_EQ(complaint(records, 0), "");
  EXPECT_EQ(complaint(records, 2), "");
  EXPECT_EQ(complaint(records, 1, {.steps = 5, .first_loss = 10, .same_bits = false}), "")
      << "unequal devices need not agree";
}

TEST(StepCheck, HoldsWhatRanksFetchOfGradientsAgainstWhatTheOthersHadThere) {
  auto sharing = expected;
  sharing.same_parameters = false;
  sharing.fetched = true;
  // Three ranks with one gradient of 10 + 20 + 30. Each rank holds the shard of its number.
  auto records = good(3);
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    for (auto& record : records[rank]) {
      record.local.checksum = 60;
      record.share.checksum = 10 * (rank + 1);
      record.fetched.checksum = 2 * record.share.checksum;
    }
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(complaint(records, rank, sharing), "") << rank;
  records[1][2].fetched.checksum += 4;
  records[1][2].reduced.non_finite = 1;  // whatever it makes of the sum
  const auto said = complaint(records, 1, sharing);
  EXPECT_EQ(said.rfind("step 3: gradients ", 0), 0U) << said;
  EXPECT_NE(said.find("it fetched"), std::string::npos) << said;
  EXPECT_NE(said.find(" 2c, expected 28 "), std::string::npos) << said;
  for (const int rank : {0, 2}) EXPECT_EQ(complaint(records, rank, sharing), "") << rank;
  sharing.same_tokens = false;
  records[0][0].local.checksum += 5;  // its own value in the shard of rank 1, which owns it
  records[1][0].fetched.checksum += 5;
  for (int rank = 0; rank < 3; ++rank) {
    const auto of_all = complaint(records, rank, sharing);
    EXPECT_EQ(of_all.rfind("step 3: gradients ", 0), 0U) << of_all;
    EXPECT_NE(of_all.find("ranks fetched"), std::string::npos) << of_all;
    EXPECT_NE(of_all.find(" 7c, expected 78 "), std::string::npos) << of_all;
  }
}

TEST(StepCheck, LetsTheRanksVoteOnSumsAndParameters) {
  auto records = good(3);
  records[0][1].reduced.checksum = 0xabc;
  EXPECT_NE(complaint(records, 0, {.steps = 5, .first_loss = 10, .same_bits = false}).find("step 2: checksum of the"),
            std::string::npos);
  records = good(3);
  records[2][4].updated.checksum = 0xabc;
  EXPECT_NE(complaint(records, 2).find("step 5" + of_parameters), std::string::npos);
}

TEST(StepCheck, SeesASumThatIsNotThatOfAllRanksThoughTheyAgree) {
  auto not_made = good(4);
  for (auto& records : not_made) records[2].reduced.projection = 0.5;
  EXPECT_EQ(complaint(not_made, 1),
            "step 3: the reduced gradient is not the sum over all ranks: its random-sign projection is 0.5, expected 2 "
            "within 1.6e-05");

  auto other_tokens = good(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (auto& record : other_tokens[rank]) record.local = {4, 0, rank, -0.25 * static_cast<double>(rank)};
  }
  Expected by_rank = expected;
  by_rank.same_tokens = false;
  EXPECT_NE(complaint(other_tokens, 0, by_rank), "");
  for (auto& records : other_tokens) {
    for (auto& record : records) record.reduced.projection = -1.50001;
  }
  EXPECT_EQ(complaint(other_tokens, 0, by_rank), "");
}

TEST(StepCheck, KnowsHowFarSumsAreRounded) {
  Expected rounded = expected;
  rounded.sums = DType::bf16;
  auto by_rank = good(2);
  for (auto& records : by_rank) records[0].reduced.projection = 1.02;
  EXPECT_NE(complaint(by_rank, 0), "");
  EXPECT_EQ(complaint(by_rank, 0, rounded), "");
  for (auto& records : by_rank) records[0].reduced.projection = 1.1;
  EXPECT_NE(complaint(by_rank, 0, rounded), "");
}

TEST(StepCheck, BlamesBothOfTwoRanksThatDisagree) {
  auto records = good(2);
  records[1][0].local.checksum = 1;
  for (const int rank : {0, 1}) EXPECT_NE(complaint(records, rank).find("no value has a majority"), std::string::npos);
}

TEST(StepCheck, KnowsWhereTheLossBeginsAndThatItFalls) {
  auto records = good(1);
  records[0][0].loss = 10.4;
  EXPECT_EQ(complaint(records, 0).rfind("step 1: loss 10.4000, expected 10.0000 within 3 %", 0), 0U);
  records = good(1);
  records[0][4].loss = 10;
  EXPECT_EQ(complaint(records, 0).rfind("step 5: loss 10.0000, expected below ", 0), 0U);
  records[0].resize(1);
  EXPECT_EQ(complaint(records, 0, {.steps = 1, .first_loss = 10, .same_bits = true}), "") << "one step cannot fall";
}

TEST(StepCheck, ComparesWithTheLossesThatHealthyMachinesHave) {
  Expected golden = expected;
  golden.golden = {{1, 10}, {3, 9.8}, {10, 1}};  // for ten steps, of which five were run
  EXPECT_EQ(complaint(good(1), 0, golden), "");
  auto records = good(1);
  records[0][2].loss = 9.69;  // falls, from the correct first loss
  EXPECT_EQ(complaint(records, 0, golden).rfind("step 3: loss 9.69, expected 9.8 within 1 %", 0), 0U);
  EXPECT_EQ(complaint(records, 0), "");
}

TEST(StepCheck, KnowsTheLossesOfAModelAndItsPrecisionAndOfNoOther) {
  const LoraStepSpec qwen{.model = "qwen2_7b", .batch = 2, .seq = 4096};
  ASSERT_FALSE(golden_losses(qwen).empty());
  EXPECT_EQ(golden_losses(qwen).front().step, 1u);
  auto other = qwen;
  other.batch = 3;
  EXPECT_TRUE(golden_losses(other).empty());
  other = qwen;
  other.retain = Retain::inputs;
  EXPECT_FALSE(golden_losses(other).empty()) << "what saves memory leaves the same bits";
}

TEST(CoverOfTokens, FindsWhatTwoRanksHaveWhatNobodyHasAndWhatIsNotOfTheSet) {
  EXPECT_EQ(check_cover({{0, 4, 10}, {4, 4, 20}}, 8, 30), std::nullopt);
  EXPECT_EQ(*check_cover({{0, 4, 10}, {0, 4, 10}}, 8, 30),
            "rank 1 has sequences from 0 on, expected 4: two ranks have the same ones");
  EXPECT_NE(check_cover({{0, 4, 10}, {6, 2, 20}}, 8, 30)->find(" 6 on, expected 4"), std::string::npos);
  EXPECT_NE(check_cover({{0, 4, 10}, {4, 2, 20}}, 8, 30)->find(" 6 sequences together"), std::string::npos);
  EXPECT_EQ(*check_cover({{0, 4, 10}, {4, 4, 21}}, 8, 30),
            "the tokens of all ranks have the checksum 1f, those of the data set 1e");
}

}  // namespace
}  // namespace shakedown::training::step_check_test
