// The step that trains every parameter, on the host. Compares its gradients with finite differences of its loss for
// every composition, and tests all variants that must not change the result.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "kernels/transformer/measured_step.hpp"
#include "tests/kernels/transformer/gradients.hpp"
#include "tests/kernels/transformer/ranks.hpp"
#include "tests/kernels/transformer/text_run.hpp"

namespace shakedown::train_step_test {
namespace {

using training::AdamW;
using training::Retain;
using training::step_shape;
using training::StepShape;

struct Composition {
  const char* name;
  StepShape shape;
};
class TrainStep : public testing::TestWithParam<Composition> {};

TEST_P(TrainStep, HasTheGradientThatDifferencesOfTheLossShow) { expect_gradients_match_differences(GetParam().shape); }

TEST_P(TrainStep, TrainsEveryParameterOfTheModel) {
  const auto& shape = GetParam().shape;
  const auto tensors = shape.tensors();
  std::size_t next = 0;
  for (const auto& t : tensors) {
    EXPECT_EQ(t.offset, next) << text(t);
    next += t.size();
  }
  EXPECT_EQ(next, parameters(shape.model, shape.lora).total());
}

TEST_P(TrainStep, GivesTheSameHoweverTheBatchIsCut) {
  auto shape = GetParam().shape;
  HostStep<double> whole(shape);
  shape.batch = 1;
  shape.accumulation = 2;
  HostStep<double> cut(shape);
  EXPECT_NEAR(cut.loss(), whole.loss(), 1e-13);
  EXPECT_LT(distance(cut.gradient(), whole.gradient()), 1e-12);
}

TEST_P(TrainStep, GivesTheSameHoweverTheBatchIsCutWhereRanksShareTheWeights) {
  auto shape = GetParam().shape;
  HostStep<double> whole(shape);
  const auto want = whole.gradient();
  const auto loss = whole.step.records().back().loss;
  shape.batch = 1;
  shape.accumulation = 2;
  shape.ranks = 3;
  shape.shard = training::Shard::weights;
  run_ranks(3, [&](Group& group) {
    auto mine = shape;
    mine.rank = group.rank();
    HostStep<double> cut(mine, 1, &group);
    EXPECT_NEAR(cut.loss(), loss, 1e-13);
    EXPECT_LT(distance(cut.gradient(), want), 1e-12);
    EXPECT_LT(distance(cut.gradient(), want), 1e-12) << "what the step before has left is not added to";
  });
}

/// Flips one bit of the data received from other ranks, a given number of times.
class DamagedRank final : public ThreadRank {
 public:
  DamagedRank(Shared& shared, int rank, int damages) : ThreadRank(shared, rank), left_(damages) {}
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out) override {
    ThreadRank::all_to_all(in, out);
    const auto other = rank() == 0 ? out.size() / static_cast<std::size_t>(size()) : 0;
    if (left_-- == 1) out[other] ^= std::byte{1};
  }

 private:
  int left_;
};

TEST_P(TrainStep, KnowsAChangedBitOfAGradientThatRanksFetch) {
  for (const auto shard : {training::Shard::optimizer, training::Shard::weights}) {
    for (const bool same_tokens : {true, false}) {
      for (const int damages : {0, 3}) {
        ThreadRank::Shared shared(3);
        std::vector<std::vector<training::Record>> by_rank(3);
        {
          std::vector<std::jthread> threads;
          for (int rank = 0; rank < 3; ++rank) {
            threads.emplace_back([&, rank] {
              DamagedRank group(shared, rank, rank == 1 ? damages : 0);
              auto shape = GetParam().shape;
              shape.batch = 1;
              shape.accumulation = 2;
              shape.ranks = 3;
              shape.shard = shard;
              shape.rank = rank;
              HostStep<double> step(shape, 1, &group);
              step.load(batch_of(shape, same_tokens ? 0 : static_cast<std::size_t>(2 * rank)));
              step.step.restart();
              for (int i = 0; i < 3; ++i) step.step.run({});
              by_rank[static_cast<std::size_t>(rank)] = step.step.records();
            });
          }
        }
        for (int rank = 0; rank < 3; ++rank) {
          const auto check = check_steps(by_rank, rank,
                                         {.steps = 3,
                                          .first_loss = by_rank[static_cast<std::size_t>(rank)][0].loss,
                                          .same_bits = true,
                                          .same_tokens = same_tokens,
                                          .same_parameters = false,
                                          .falling = false,
                                          .fetched = true});
          const bool says = damages > 0 && (rank == 1 || !same_tokens);
          EXPECT_EQ(check.first.find(" fetched from other ranks have checksum ") != std::string::npos, says)
              << name(shard) << " rank " << rank << ": " << check.first;
          EXPECT_EQ(check.passed(), !says) << check.first;
        }
      }
    }
  }
}

TEST_P(TrainStep, GivesTheSameBitsHoweverMuchIsKept) {
  auto shape = GetParam().shape;
  shape.retain = Retain::all;
  HostStep<float> all(shape);
  for (const auto retain : {Retain::rebuild, Retain::inputs}) {
    if (retain == Retain::rebuild && !shape.model.norms_before()) continue;
    shape.retain = retain;
    HostStep<float> other(shape);
    EXPECT_EQ(other.gradient(), all.gradient()) << name(retain);
    EXPECT_LT(other.step.bytes(), all.step.bytes());
  }
}

TEST_P(TrainStep, GivesTheSameBitsWithAnyNumberOfThreadsAndBuckets) {
  auto shape = GetParam().shape;
  shape.bucket = 1 << 20;
  HostStep<double> one(shape, 1);
  shape.bucket = 1;
  HostStep<double> three(shape, 3);
  EXPECT_EQ(one.gradient(), three.gradient());
  EXPECT_EQ(one.step.buckets(), 1u);
  EXPECT_EQ(three.step.buckets(), 3u);  // one before the attention of each layer, and one for the rest
  EXPECT_EQ(one.step.records().front().local.checksum, three.step.records().front().local.checksum);
}

TEST_P(TrainStep, AllocatesWhatWasPlanned) {
  const auto& shape = GetParam().shape;
  HostStep<double> host(shape);
  EXPECT_EQ(host.step.bytes(), training::plan(shape, 8, 8, host.ops.workspace_bytes()).bytes);
}

/// The same with adapters and frozen weights, since the set of trained parameters is independent of the model. Checks
/// the memory; tests/kernels/transformer/step_ranks.cpp checks the results over MPI.
TEST_P(TrainStep, AllocatesWhatWasPlannedWhereRanksShareTheState) {
  auto shape = GetParam().shape;
  shape.ranks = 3;
  shape.rank = 1;
  host::Team team(1);
  host::HostOps<double> ops(team);
  const std::size_t before = training::plan(shape, 8, 8, 0).bytes;
  for (const auto shard : {training::Shard::optimizer, training::Shard::weights}) {
    shape.shard = shard;
    const training::TrainingStep<host::HostOps<double>> step(ops, shape);
    EXPECT_EQ(step.bytes(), training::plan(shape, 8, 8, 0).bytes);
    EXPECT_TRUE(shard == training::Shard::weights || step.bytes() < before);
  }
}

TEST_P(TrainStep, LetsAdaptersBeTrainedInstead) {
  auto shape = GetParam().shape;
  shape.trains = training::Trains::adapters;
  shape.lora = ragged_shape().lora;
  if (!shape.model.norms_before()) {
    EXPECT_THROW(check(shape), std::invalid_argument) << "its sums have no room for what adapters write";
    return;
  }
  expect_gradients_match_differences(shape);
}

INSTANTIATE_TEST_SUITE_P(Compositions, TrainStep,
                         testing::Values(Composition{"gpt2", gpt2_shape()}, Composition{"encoder", encoder_shape()},
                                         Composition{"qwen2", qwen2_shape()}),
                         [](const auto& composition) { return composition.param.name; });

TEST(TrainStepMask, HidesLaterPositionsFromADecoderAloneAndNotFromAnEncoder) {
  for (const bool causal : {true, false}) {
    HostStep<double> host(causal ? gpt2_shape() : encoder_shape());
    auto batch = batch_of(host.step.shape());
    host.loss();
    const double before = host.step.buffers().losses[0];
    batch.inputs[3] = (batch.inputs[3] + 1) % 61;
    host.load(batch);
    host.loss();
    EXPECT_EQ(host.step.buffers().losses[0] == before, causal);
  }
}

TEST(TrainStepPositions, GiveNoGradientToThoseBehindTheSequences) {
  HostStep<double> host(gpt2_shape());
  const auto gradient = host.gradient();
  for (const auto& t : host.step.tensors()) {
    if (t.owner != training::Owner::positions) continue;
    for (std::size_t i = 0; i < t.size(); ++i) EXPECT_EQ(gradient[t.offset + i] != 0, i < 7 * t.cols) << i;
  }
}

TEST(TrainStepPositions, RefuseSequencesThatAreLonger) {
  auto shape = gpt2_shape();
  shape.seq = 10;
  try {
    HostStep<float> host(shape);
    FAIL() << "there are 9 positions";
  } catch (const std::invalid_argument& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("choose seq:9 or less"));
  }
}

TEST(TrainStepShard, RefusesInOneLineWhatRanksCannotShare) {
  const auto refusal = [](const TrainStepSpec& spec) {
    try {
      step_shape(spec);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  using training::Shard;
  EXPECT_EQ(refusal({.model = "tiny", .shard = Shard::optimizer}).rfind("shard:optimizer needs ", 0), 0U);
  EXPECT_EQ(refusal({.model = "gpt2_tiny", .ranks = 900, .shard = Shard::weights}).rfind("shard:weights leaves ", 0),
            0U);
  EXPECT_EQ(refusal({.model = "gpt2_tiny", .ranks = 4, .shard = Shard::weights}), "nothing");
  EXPECT_THROW(step_shape(LoraStepSpec{.model = "tiny", .ranks = 2, .shard = Shard::optimizer}), std::invalid_argument);
}

TEST(TrainStepTogether, RefusesInOneLineWhatRanksCannotComputeTogether) {
  const auto refusal = [](const auto& spec) {
    try {
      step_shape(spec);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto divides_not = [](const std::string& part, const std::string& whole) {
    return part + " does not divide the " + whole;
  };
  EXPECT_EQ(refusal(TrainStepSpec{.model = "tiny", .seq = 16, .ranks = 3, .tp = 2}),
            "tp:2 does not divide the 3 ranks: start a multiple of it, or leave it out");
  EXPECT_EQ(
      refusal(TrainStepSpec{.model = "tiny", .seq = 16, .ranks = 4, .tp = 4}).rfind(divides_not("tp:4", "2 heads"), 0),
      0U);
  EXPECT_EQ(refusal(TrainStepSpec{.model = "gpt2_124m", .seq = 16, .ranks = 8, .tp = 8})
                .rfind(divides_not("tp:8", "12 heads"), 0),
            0U);
  EXPECT_EQ(refusal(TrainStepSpec{.model = "tiny", .seq = 15, .ranks = 2, .tp = 2})
                .rfind(divides_not("tp:2", "15 tokens"), 0),
            0U);
  EXPECT_EQ(refusal(LoraStepSpec{.model = "tiny", .seq = 16, .ranks = 2, .tp = 2}),
            "tp:2 is for whole models: train one (train_step)");
  EXPECT_EQ(refusal(TrainStepSpec{.model = "tiny", .seq = 16, .ranks = 4, .shard = training::Shard::weights, .tp = 2}),
            "nothing");
}

/// Checks the start; tests/kernels/transformer/step_ranks.cpp checks the results.
TEST(TrainStepTogether, StartsFromTheWeightsOfOneRankAndAllocatesWhatWasPlanned) {
  for (const char* const model : {"tiny", "gpt2_tiny", "encoder_tiny"}) {
    TrainStepSpec spec{.model = model, .batch = 1, .seq = 16};
    host::Team team(1);
    host::HostOps<double> ops(team);
    training::TrainingStep<host::HostOps<double>> whole(ops, step_shape(spec));
    whole.initialize();
    spec.ranks = spec.tp = 2;
    for (spec.rank = 0; spec.rank < 2; ++spec.rank) {
      const auto shape = step_shape(spec);
      training::TrainingStep<host::HostOps<double>> part(ops, shape);
      EXPECT_EQ(part.bytes(), training::plan(shape, 8, 8, 0).bytes);
      part.initialize();
      const WholeTensors tensors(shape);
      const double *const mine = part.buffers().state.parameters, *const all = whole.buffers().state.parameters;
      for (const auto& piece : part.pieces()) {
        tensors.each(part.tensors(), piece, [&](std::size_t i, std::size_t tensor, std::size_t element) {
          ASSERT_EQ(mine[piece.first + i], all[tensors.offset(tensor) + element]) << model;
        });
      }
    }
  }
}

/// Simulates other ranks that read the shards of this one from its memory, and writes from them, at every time that is
/// allowed. Records reads before a write has completed, and overwrites during a read.
class FetchingOps : public host::HostOps<double> {
 public:
  using HostOps::all_reduce;
  using HostOps::HostOps;
  struct Range {
    const double *begin, *end;
    bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
  };

  void place_copies(std::span<const training::ParameterSlot<double>> slots) {
    copies_.clear();
    for (const auto& slot : slots) copies_.push_back({slot.place.data, slot.place.data + slot.place.cols});
    HostOps::place_copies(slots);
  }
  void set_bytes(void* to, int value, std::size_t bytes) {
    const auto* const begin = static_cast<const double*>(to);
    write(std::array{Range{begin, begin + bytes / sizeof(double)}});
    HostOps::set_bytes(to, value, bytes);
  }
  void write_copies(const double* parameters) {
    write(copies_);
    HostOps::write_copies(parameters);
  }
  void adamw(const training::FlatState<double>& state, const AdamW& update, const training::Summary* gradient,
             training::Summary* updated, std::size_t first, std::size_t slots) {
    write(std::span(copies_).subspan(first, slots));
    HostOps::adamw(state, update, gradient, updated, first, slots);
  }
  void adamw(const training::Bf16State<double, double>& state, const AdamW& update, const training::Summary* gradient,
             training::Summary* updated, std::size_t first, std::size_t slots) {
    write(std::span(copies_).subspan(first, slots));
    HostOps::adamw(state, update, gradient, updated, first, slots);
  }
  void round_to_bf16(const double* from, double* to, std::size_t count) {
    write(std::array{Range{to, to + count}});
    HostOps::round_to_bf16(from, to, count);
  }
  std::size_t all_gather(const double* own, double* all, std::size_t count) {
    const Range share{own, own + count};
    for (const auto& range : untold_) early += share.meets(range) ? 1 : 0;
    fetched_.push_back(share);
    joined_ = false;
    ++fetches;
    const std::vector<double> values(own, own + count);
    for (std::size_t rank = 0; rank < 2; ++rank) std::copy(values.begin(), values.end(), all + rank * count);
    return 0;
  }
  void meet() {
    untold_.clear();
    together_ = joined_;
  }
  void all_reduce(training::Summary*) { together_ = joined_; }
  std::size_t reduce_scatter(const double* all, double* own, std::size_t count, bool add,
                             const training::ShareSummaries&) {
    for (std::size_t i = 0; i < count; ++i) own[i] = add ? own[i] + all[i] : all[i];
    return 0;
  }
  void join_reductions() {
    if (std::exchange(together_, false)) fetched_.clear();
    joined_ = true;
  }

  int fetches = 0, early = 0, overwritten = 0;

 private:
  void write(std::span<const Range> ranges) {
    for (const auto& range : ranges) {
      for (const auto& share : fetched_) overwritten += range.meets(share) ? 1 : 0;
      untold_.push_back(range);
    }
  }

  std::vector<Range> copies_, untold_, fetched_;  // slots; written since the last synchronization; maybe being read
  bool joined_ = true, together_ = false;         // all own transfers have completed; all ranks have synchronized since
};

TEST(TrainStepShard, LetsRanksFetchFromEachOtherNothingThatIsNotWrittenAndWriteNothingThatIsFetched) {
  auto in_bf16 = qwen2_shape(7);
  in_bf16.masters = DType::bf16;
  for (auto shape : {gpt2_shape(), encoder_shape(), qwen2_shape(7), in_bf16}) {
    for (const auto shard : {training::Shard::optimizer, training::Shard::weights}) {
      if (shape.in_bf16() && shard == training::Shard::optimizer) continue;
      shape.ranks = 2;
      shape.shard = shard;
      shape.accumulation = 2;
      host::Team team(1);
      FetchingOps ops(team);
      training::TrainingStep<FetchingOps> step(ops, shape);
      const auto batch = batch_of(shape);
      const auto run = [&](std::initializer_list<bool> collectives) {
        for (const bool with : collectives) step.run({}, with);
      };
      step.initialize();
      step.load(batch.inputs, batch.targets);
      run({false, true, true, false, false, true});
      step.weights_summary();
      step.initialize_parameters();
      run({true, false});
      step.weights_summary();
      run({false, true});
      step.initialize();
      EXPECT_GT(ops.fetches, 0);
      EXPECT_EQ(ops.early, 0) << name(shard);
      EXPECT_EQ(ops.overwritten, 0) << name(shard);
    }
  }
}

TEST(TrainStepWait, IsThatForASlowRankAndNoneOfARankAlone) {
  using std::chrono::milliseconds;
  constexpr milliseconds late(1000);
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [&](Group& group) {
      auto shape = gpt2_shape();
      shape.ranks = ranks;
      HostStep<double> host(shape, 1, &group);
      host.step.run({});
      group.barrier();
      if (group.rank() == 1) std::this_thread::sleep_for(late);
      host.step.run({});
      const double wait = host.ops.exchange_wait();
      EXPECT_LE(wait, host.ops.milliseconds(training::Mark::begin, training::Mark::end));
      if (ranks == 1) {
        EXPECT_EQ(wait, 0);
      } else if (group.rank() == 0) {
        EXPECT_GT(wait, late.count() / 4);
      }
    });
  }
}

TEST(TrainStepRetain, RefusesToRebuildWhatNoNormCanMakeAgain) {
  EXPECT_THROW(step_shape(TrainStepSpec{.model = "encoder_tiny", .batch = 1, .seq = 8, .retain = Retain::rebuild}),
               std::invalid_argument);
}

TEST(TrainStepLoss, BeginsNearTheLogOfTheVocabularyAndFallsOnARepeatedBatch) {
  for (const char* const model : {"gpt2_tiny", "encoder_tiny", "tiny"}) {
    const auto shape = step_shape(TrainStepSpec{.model = model, .batch = 2, .seq = 16});
    HostStep<float> host(shape);
    host.step.initialize();
    host.load(batch_of(shape));
    for (int i = 0; i < 10; ++i) host.step.run(AdamW{.lr = 1e-3});
    const auto& records = host.step.records();
    ASSERT_EQ(records.size(), 10u);
    EXPECT_NEAR(records.front().loss, training::expected_first_loss(shape.model), 0.03) << model;
    for (std::size_t i = 1; i < records.size(); ++i) EXPECT_LT(records[i].loss, records[i - 1].loss) << model;
  }
}

/// An independent reference has computed the losses of exactly this measurement (tests/peers/reference_step.py).
TEST(TrainStepLoss, IsWhatTheReferenceHasOfAMeasurement) {
  for (const auto& [model, masters] :
       {std::pair{"gpt2_tiny", DType::f32}, {"encoder_tiny", DType::f32}, {"gpt2_tiny", DType::bf16}}) {
    const TrainStepSpec spec{.model = model, .batch = 2, .seq = 16, .dtype = DType::f32, .masters = masters};
    HostStep<double> host(step_shape(spec));
    host.step.initialize();
    Batch batch;
    for (std::uint64_t i = 0; i < 32; ++i) {
      batch.inputs.push_back(training::input_token(i, 256));
      batch.targets.push_back(training::target_token(i, 256));
    }
    host.load(batch);
    for (int i = 0; i < 10; ++i) host.step.run(training::measured_update);
    const auto golden = training::golden_losses(spec);
    ASSERT_EQ(golden.size(), 4u);
    for (const auto& [step, loss] : golden) EXPECT_NEAR(host.step.records()[step - 1].loss, loss, 6e-6) << model;
  }
}

TEST(TrainStepText, FallsOverTwoHundredStepsAndGivesTheSameBitsAgain) {
  const auto losses = TextRun<float>(1).losses(), again = TextRun<float>(1).losses();
  ASSERT_EQ(losses.size(), 200u);
  EXPECT_EQ(losses, again);
  const auto mean = [&](std::size_t first) {
    double sum = 0;
    for (std::size_t i = first; i < first + 20; ++i) sum += losses[i] / 20;
    return sum;
  };
  EXPECT_NEAR(losses.front(), std::log(128), 0.05);
  EXPECT_LT(mean(60), 0.85 * mean(0));   // letters are not equally frequent
  EXPECT_LT(mean(180), mean(60) - 0.1);  // and depend on the previous one
}

}  // namespace
}  // namespace shakedown::train_step_test
