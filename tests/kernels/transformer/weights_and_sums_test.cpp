// The order in which weights are gathered before use and gradients are reduced after the backward pass.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.hpp"
#include "kernels/transformer/gradient_sums.hpp"
#include "kernels/transformer/weight_store.hpp"
#include "tests/kernels/transformer/host_step.hpp"

namespace shakedown {
namespace {

/// Records transfers between ranks, each with a ticket to wait for.
class Noting : public host::HostOps<double> {
 public:
  using HostOps::HostOps;
  std::size_t all_gather(const double*, double*, std::size_t count) {
    said.push_back("gather " + std::to_string(count) + " as " + std::to_string(++tickets_));
    return tickets_;
  }
  std::size_t reduce_scatter(const double*, double*, std::size_t count, bool add, const training::ShareSummaries&) {
    said.push_back((add ? "add " : "scatter ") + std::to_string(count) + " as " + std::to_string(++tickets_));
    return tickets_;
  }
  void all_reduce(double*, std::size_t count) { said.push_back("sum " + std::to_string(count)); }
  void all_reduce(training::Summary*) { said.emplace_back("sum the summary"); }
  void wait(std::size_t ticket) { said.push_back("wait for " + std::to_string(ticket)); }
  void meet() { said.emplace_back("meet"); }

  /// Returns the records since the last call.
  std::string heard() { return joined(std::exchange(said, {}), ", "); }
  std::vector<std::string> said;

 private:
  std::size_t tickets_ = 0;
};

/// The memory of a step of two ranks, and the objects that move weights and gradients in it.
class Moves {
 public:
  explicit Moves(training::StepShape of) : shape(std::move(of)), layout(shape.layout()) {}

  static training::StepShape two_ranks(training::Shard shard) {
    auto shape = qwen2_shape(4);
    shape.ranks = 2;
    shape.shard = shard;
    return shape;
  }
  /// Returns "gather 96 as 1".
  std::string gathered(std::size_t unit, std::size_t ticket) const {
    return "gather " + std::to_string(layout.units[unit].size / 2) + " as " + std::to_string(ticket);
  }

  training::StepShape shape;
  training::FlatLayout layout;
  host::Team team{1};
  Noting ops{team};
  std::vector<std::byte> memory = std::vector<std::byte>(training::plan(shape, 8, 8, 0).bytes);
  training::Arena arena{memory.data()}, host;
  training::Buffers<double, double> buffers{arena, host, shape, 0};
  training::WeightStore<Noting> weights{ops, shape, layout, buffers.units};
  training::GradientSums<Noting> sums{ops, shape, layout, buffers};
  training::Record record{};
};

TEST(WeightStore, MovesNothingWhereEachRankHasAllWeights) {
  Moves moves(Moves::two_ranks(training::Shard::none));
  moves.weights.exchange();
  moves.weights.use(1);
  moves.weights.gather(2);
  EXPECT_EQ(moves.ops.heard(), "");
}

TEST(WeightStore, GathersAUnitOnceAheadOfItsUseAndWaitsForItOnce) {
  Moves moves(Moves::two_ranks(training::Shard::weights));
  moves.weights.gather(1);
  moves.weights.gather(2);
  moves.weights.gather(1);
  EXPECT_EQ(moves.ops.heard(), moves.gathered(1, 1) + ", " + moves.gathered(2, 2));
  moves.weights.use(2);
  moves.weights.use(2);
  EXPECT_EQ(moves.ops.heard(), "wait for 2") << "whatever else is on its way";
  moves.weights.use(3);
  EXPECT_EQ(moves.ops.heard(), moves.gathered(3, 3) + ", wait for 3")
      << "weights that were not fetched ahead travel now";
}

TEST(WeightStore, GathersAgainWhatALaterUnitHasOverwritten) {
  Moves moves(Moves::two_ranks(training::Shard::weights));
  ASSERT_EQ(moves.buffers.units[1].slot, moves.buffers.units[1 + training::layers_in_turns].slot);
  moves.weights.use(1);
  moves.weights.use(1 + training::layers_in_turns);
  moves.ops.heard();
  moves.weights.use(1);
  EXPECT_EQ(moves.ops.heard(), moves.gathered(1, 3) + ", wait for 3");
}

TEST(WeightStore, FindsNothingInPlaceAfterAnUpdateAndSaysWhatTheNextStepUsesFirst) {
  Moves moves(Moves::two_ranks(training::Shard::weights));
  moves.weights.gather(2);
  moves.weights.joined();
  EXPECT_FALSE(moves.weights.is_next(2));
  moves.weights.forget();
  EXPECT_TRUE(moves.weights.is_next(2));
  moves.ops.heard();
  moves.weights.use(2);
  EXPECT_EQ(moves.ops.heard(), moves.gathered(2, 2) + ", wait for 2");
}

TEST(WeightStore, MovesNothingAloneAndMeetsTheOthersBeforeItMovesAgain) {
  Moves moves(Moves::two_ranks(training::Shard::weights));
  moves.weights.use(1);
  moves.ops.heard();
  moves.weights.go_alone();
  moves.weights.use(2);
  EXPECT_EQ(moves.ops.heard(), "");
  EXPECT_FALSE(moves.weights.exchanges());
  moves.weights.exchange();
  moves.weights.exchange();
  EXPECT_EQ(moves.ops.heard(), "meet") << "once";
  moves.weights.use(1);
  EXPECT_EQ(moves.ops.heard(), moves.gathered(1, 2) + ", wait for 2") << "another rank may have written it since";
}

TEST(GradientSums, SumsWhatIsCompleteByBucketAndWhatIsLeftAtTheEnd) {
  auto shape = Moves::two_ranks(training::Shard::none);
  shape.bucket = 1000;
  Moves moves(shape);
  const training::GradientSums<Noting>::Pass pass{&moves.record, true, 0};
  moves.sums.begin();
  EXPECT_FALSE(moves.sums.due(999, 3));
  EXPECT_TRUE(moves.sums.due(1000, 3));
  moves.sums.reduce(1200, pass);
  EXPECT_FALSE(moves.sums.due(2199, 2)) << "counted from what was summed";
  EXPECT_TRUE(moves.sums.due(1201, 0)) << "in front of the last part as little as possible is left";
  moves.sums.reduce(1200, pass);
  const auto all = moves.layout.count();
  moves.sums.reduce(all, pass);
  EXPECT_EQ(moves.ops.heard(), "sum 1200, sum " + std::to_string(all - 1200));
  EXPECT_EQ(moves.sums.buckets(), 2U);
}

TEST(GradientSums, AllInOneBucketWaitForTheEnd) {
  auto shape = Moves::two_ranks(training::Shard::none);
  Moves moves(shape);
  moves.shape.bucket = moves.layout.count();
  EXPECT_FALSE(moves.sums.due(moves.layout.count() - 1, 0));
}

TEST(GradientSums, GiveEachRankItsShareOfTheUnitsThatAreComplete) {
  Moves moves(Moves::two_ranks(training::Shard::weights));
  const auto& units = moves.layout.units;
  const auto share = [&](std::size_t unit, const char* how, int ticket) {
    return how + (" " + std::to_string(units[unit].size / 2)) + " as " + std::to_string(ticket);
  };
  moves.sums.begin();
  moves.sums.reduce(units[1].end() - 1, {&moves.record, true, 0});
  EXPECT_EQ(moves.ops.heard(), share(0, "scatter", 1)) << "a unit that is not complete waits";
  moves.sums.reduce(units[2].end(), {&moves.record, true, 0});
  EXPECT_EQ(moves.ops.heard(), share(1, "scatter", 2) + ", " + share(2, "scatter", 3));
  moves.sums.begin();
  moves.sums.reduce(units[0].end(), {&moves.record, true, 1});
  EXPECT_EQ(moves.ops.heard(), share(0, "add", 4)) << "to that of the micro-batch before";
}

TEST(GradientSums, WaitForASumBeforeItsPlaceIsWrittenAgain) {
  Moves moves(Moves::two_ranks(training::Shard::weights));
  moves.sums.begin();
  moves.sums.reduce(moves.layout.units[1].end(), {&moves.record, true, 0});
  moves.ops.heard();
  moves.sums.claim(2);
  EXPECT_EQ(moves.ops.heard(), "");
  moves.sums.claim(1 + training::layers_in_turns);
  moves.sums.claim(1);
  EXPECT_EQ(moves.ops.heard(), "wait for 2") << "the same memory, once";
}

TEST(GradientSums, OfAStepAloneAreLookedAtAndGoNowhere) {
  for (const auto shard : {training::Shard::none, training::Shard::optimizer, training::Shard::weights}) {
    Moves moves(Moves::two_ranks(shard));
    moves.sums.begin();
    moves.sums.reduce(moves.layout.count(), {&moves.record, false, 0});
    moves.sums.summarize({&moves.record, false, 0});
    EXPECT_EQ(moves.ops.heard(), "") << name(shard);
  }
}

TEST(GradientSums, OfSharesAreSummarizedByOneMoreSumAndOthersByALook) {
  Moves shares(Moves::two_ranks(training::Shard::weights)), whole(Moves::two_ranks(training::Shard::none));
  shares.sums.summarize({&shares.record, true, 0});
  EXPECT_EQ(shares.ops.heard(), "sum the summary");
  whole.buffers.state.gradient[whole.layout.count() - 1] = 3;
  whole.sums.summarize({&whole.record, true, 0});
  EXPECT_EQ(whole.ops.heard(), "");
  EXPECT_EQ(whole.record.reduced.squared_norm, 9);
}

}  // namespace
}  // namespace shakedown
