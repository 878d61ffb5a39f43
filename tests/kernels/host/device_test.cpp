// Every Work of the host backend: passes with poisoned outputs, fails if nothing ran, fails if one element is damaged.
// suite_test.sh tests behaviour with several ranks.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>

#include "base/group.hpp"
#include "kernels/device.hpp"
#include "kernels/host/memtest.hpp"
#include "kernels/host/tile_product.hpp"
#include "kernels/ops/burn.hpp"
#include "kernels/ops/collective.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/exchange.hpp"
#include "kernels/ops/gemm.hpp"
#include "kernels/ops/jitter.hpp"
#include "kernels/ops/latency.hpp"
#include "kernels/ops/launch.hpp"
#include "kernels/ops/moe.hpp"
#include "kernels/transformer/checkpoint_spec.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown::host_device_test {
namespace {

class HostBackend : public testing::Test {
 protected:
  template <class Spec>
  std::unique_ptr<Work> ready(const Spec& spec) {
    auto work = device_->prepare(spec);
    work->connect(group_);
    work->reset();
    return work;
  }

  /// Runs operations like the fixture: stage() first, so that the check knows the number of operations.
  double timed(Work& work, int repeats) {
    work.stage(repeats);
    return device_->seconds(work, repeats);
  }

  template <class Spec>
  void check_all_ways(const Spec& spec, bool has_cost = true) {
    const auto work = ready(spec);
    EXPECT_FALSE(work->verify().passed()) << key(spec) << ": nothing ran, but the check passed";
    EXPECT_GT(timed(*work, 2), 0);
    const auto good = work->verify();
    EXPECT_TRUE(good.passed()) << key(spec) << ": " << good.first;
    EXPECT_GT(good.compared, 0u);
    EXPECT_EQ(work->bytes(), footprint(spec));
    if (has_cost) {
      EXPECT_EQ(work->cost().flops, cost(spec).flops);
      EXPECT_EQ(work->cost().bytes, cost(spec).bytes);
    }
    const auto digest = work->digest();
    timed(*work, 1);
    EXPECT_EQ(work->digest(), digest) << key(spec) << ": each operation leaves the same bits";
    work->corrupt();
    if (digest) {
      EXPECT_NE(work->digest(), digest) << key(spec) << ": one damaged element was not seen";
    }
    const auto bad = work->verify();
    EXPECT_FALSE(bad.passed()) << key(spec) << ": one damaged element was not seen";
    EXPECT_NE(bad.first.find("expected"), std::string::npos) << bad.first;
    work->reset();
    EXPECT_FALSE(work->verify().passed()) << key(spec) << ": reset did not poison the output";
  }

  std::unique_ptr<Device> device_ = open_device(Backend::host, {.threads = 3});
  Alone group_;
};

TEST_F(HostBackend, MultipliesMatricesOfRaggedShapes) {
  for (const auto dtype : {DType::f32, DType::f64}) {
    check_all_ways(GemmSpec{dtype, 64, 64, 64});
    check_all_ways(GemmSpec{dtype, 37, 129, 65});
    check_all_ways(GemmSpec{dtype, 5, 1, 300});
  }
}

TEST_F(HostBackend, MultipliesFp8WithEveryKindOfScaleFactorAndInt8) {
  for (const auto scaling : {Scaling::tensor, Scaling::row, Scaling::block128}) {
    for (const auto accumulate : {Accumulate::fast, Accumulate::exact}) {
      for (const auto& [m, n, k] : {std::tuple{64, 64, 64}, {20, 140, 300}}) {
        GemmSpec spec{DType::fp8_e4m3, m, n, k};
        spec.scaling = scaling;
        spec.accumulate = accumulate;
        spec.load = Load::sustained;
        check_all_ways(spec);
      }
    }
  }
  check_all_ways(GemmSpec{DType::int8, 64, 64, 64});
  check_all_ways(GemmSpec{DType::int8, 37, 129, 2065});
}

TEST_F(HostBackend, RefusesScaleFactorsOfATypeThatHasNone) {
  GemmSpec spec{DType::int8, 16, 16, 16};
  spec.scaling = Scaling::row;
  EXPECT_THROW(device_->prepare(spec), std::invalid_argument);
}

TEST_F(HostBackend, CopiesMemoryWithAnyNumberOfThreads) {
  for (const std::size_t bytes : {8u, 4096u, 1000008u}) check_all_ways(HbmSpec{HbmOp::copy, Engine::cpu, bytes});
}

TEST_F(HostBackend, StreamsOverMemoryInEveryWay) {
  for (const auto op : {HbmOp::read, HbmOp::write, HbmOp::scale, HbmOp::add, HbmOp::triad}) {
    for (const std::size_t bytes : {8u, 4096u, 1000008u}) check_all_ways(HbmSpec{op, Engine::cpu, bytes});
  }
}

TEST_F(HostBackend, WalksOverItsMemoryToTheEndOfTheChain) {
  for (const std::size_t bytes : {128u, 4096u, 3000008u}) check_all_ways(MemoryLatencySpec{Engine::cpu, bytes});
  EXPECT_THROW(device_->prepare(MemoryLatencySpec{Engine::cpu, 64}), std::invalid_argument);
}

TEST_F(HostBackend, WorksInQuantaAndSaysWhatTheProcessorDidBesides) {
  check_all_ways(JitterSpec{});
  const auto work = ready(JitterSpec{});
  EXPECT_TRUE(work->metrics().empty()) << "nothing ran";
  timed(*work, 2);
  const auto found = work->metrics();
  const std::map<std::string, double> metrics(found.begin(), found.end());
  EXPECT_GT(metrics.at("quantum_p99_us"), 20) << "faster than any processor multiplies";
  EXPECT_GE(metrics.at("longest_gap_us"), 0);
  EXPECT_GE(metrics.at("stolen"), 0);
  EXPECT_LT(metrics.at("stolen"), 1);
  work->stage(2);
  device_->seconds(*work, 1);
  EXPECT_FALSE(work->verify().passed()) << "one of two announced operations was left out";
}

TEST_F(HostBackend, TestsMemoryWithEveryPattern) {
  for (const auto pattern : {TestPattern::address, TestPattern::complement, TestPattern::alternating,
                             TestPattern::random, TestPattern::moving}) {
    for (const std::size_t bytes : {16u, 4096u, 1000016u}) check_all_ways(MemoryTestSpec{pattern, bytes});
  }
  EXPECT_THROW(device_->prepare(MemoryTestSpec{TestPattern::random, std::nullopt}), Unsupported);
}

TEST_F(HostBackend, FindsABitOfMemoryThatIsStuckAtEitherValue) {
  const std::uint64_t bit = 1ULL << 17;
  for (const auto pattern : {TestPattern::address, TestPattern::alternating, TestPattern::random}) {
    for (const bool stuck : {false, true}) {
      const auto work = ready(MemoryTestSpec{pattern, 4096});
      timed(*work, 1);
      work->corrupt();
      const auto where = work->verify().first;
      auto* const word =
          reinterpret_cast<std::uint64_t*>(std::stoull(where.substr(where.find(" 0x", where.find("address"))), {}, 16));
      bool found = false;
      for (const int walks : {1, 2}) {
        work->reset();
        timed(*work, walks);
        EXPECT_TRUE(work->verify().passed());
        *word = stuck ? *word | bit : *word & ~bit;
        found = found || !work->verify().passed();
      }
      EXPECT_TRUE(found) << "a bit that is always " << stuck << " under pattern " << name(pattern);
    }
  }
}

// Memory with a fault at word 1000. Faults that need state keep it in the memory itself.
struct Sound : host::Cells {};
struct Aliased : host::Cells {  // words 1000 and 5096 are the same
  static std::size_t at(std::size_t i) { return i == 5096 ? 1000 : i; }
  static void write(std::uint64_t* words, std::size_t i, std::uint64_t word) { words[at(i)] = word; }
  static std::uint64_t read(const std::uint64_t* words, std::size_t i) { return words[at(i)]; }
};
template <bool stuck>
struct Stuck : host::Cells {  // bit 40 is stuck at one value
  static std::uint64_t read(const std::uint64_t* words, std::size_t i) {
    constexpr std::uint64_t bit = 1ULL << 40;
    return i != 1000 ? words[i] : stuck ? words[i] | bit : words[i] & ~bit;
  }
};
struct Tied : host::Cells {  // bits 40 and 41 are shorted: setting either sets both
  static std::uint64_t read(const std::uint64_t* words, std::size_t i) {
    constexpr std::uint64_t both = 3ULL << 40;
    return i == 1000 && (words[i] & both) != 0 ? words[i] | both : words[i];
  }
};
template <int to>
struct Coupled : host::Cells {  // a write flips a bit of the neighbour
  static void write(std::uint64_t* words, std::size_t i, std::uint64_t word) {
    words[i] = word;
    if (i == 1000) words[i + to] ^= 1;
  }
};

class FaultyMemory : public testing::Test {
 protected:
  /// True if `walks` passes over 64 KiB find the fault.
  template <class Cells>
  bool finds(TestPattern pattern, int walks = 1) {
    host::MemoryTest<Cells> work(MemoryTestSpec{pattern, 65536}, team_);
    work.connect(group_);
    work.reset();
    for (int i = 0; i < walks; ++i) work.enqueue();
    const auto check = work.verify();
    EXPECT_TRUE(check.passed() || check.first.find(" at address 0x") != std::string::npos) << check.first;
    return !check.passed();
  }

  host::Team team_{1};
  Alone group_;
};

TEST_F(FaultyMemory, SoundMemoryPassesEveryPattern) {
  for (const auto pattern : {TestPattern::address, TestPattern::complement, TestPattern::alternating,
                             TestPattern::random, TestPattern::moving}) {
    for (const int walks : {1, 2, 3}) EXPECT_FALSE(finds<Sound>(pattern, walks)) << name(pattern) << " " << walks;
  }
}

TEST_F(FaultyMemory, ItsOwnAddressInEachWordFindsTwoThatAreOneCell) {
  EXPECT_TRUE(finds<Aliased>(TestPattern::address));
  EXPECT_TRUE(finds<Aliased>(TestPattern::complement));
  EXPECT_FALSE(finds<Aliased>(TestPattern::alternating, 2)) << "both have the same there: why addresses are written";
}

TEST_F(FaultyMemory, TheComplementFindsBitsThatAreStuckWhereAddressesHaveOneValue) {
  EXPECT_TRUE(finds<Stuck<false>>(TestPattern::complement));
  EXPECT_TRUE(finds<Stuck<true>>(TestPattern::address));
  EXPECT_FALSE(finds<Stuck<false>>(TestPattern::address)) << "no address is so high: why the complement is written";
  EXPECT_TRUE(finds<Stuck<false>>(TestPattern::address, 2)) << "the second walk has the complement";
}

TEST_F(FaultyMemory, AlternatingBitsFindNeighboursThatAreTied) {
  EXPECT_TRUE(finds<Tied>(TestPattern::alternating));
  EXPECT_FALSE(finds<Tied>(TestPattern::address, 2)) << "both bits are the same there: why they alternate";
}

TEST_F(FaultyMemory, RandomWordsFindEachOfTheseInTwoWalks) {
  EXPECT_TRUE(finds<Aliased>(TestPattern::random, 2));
  EXPECT_TRUE(finds<Stuck<false>>(TestPattern::random, 2));
  EXPECT_TRUE(finds<Stuck<true>>(TestPattern::random, 2));
}

TEST_F(FaultyMemory, MovingInversionsAloneFindAWriteThatDisturbsTheNextWord) {
  EXPECT_TRUE(finds<Coupled<1>>(TestPattern::moving));
  EXPECT_TRUE(finds<Coupled<-1>>(TestPattern::moving));
  for (const auto pattern :
       {TestPattern::address, TestPattern::complement, TestPattern::alternating, TestPattern::random}) {
    EXPECT_FALSE(finds<Coupled<1>>(pattern, 2)) << name(pattern) << " writes the next word afterwards";
    EXPECT_TRUE(finds<Coupled<-1>>(pattern)) << name(pattern);
  }
}

constexpr TileProductSpec small_tiles{.dtype = DType::f32, .m = 16, .n = 32, .k = 512, .products = 8};

TEST_F(HostBackend, ComparesTheTileProductsOfEveryWorker) {
  const auto work = ready(small_tiles);
  EXPECT_FALSE(work->verify().passed()) << "nothing ran";
  timed(*work, 2);
  EXPECT_TRUE(work->verify().passed()) << work->verify().first;
  EXPECT_EQ(work->cost().flops, 3 * cost(small_tiles).flops) << "a spec counts one worker";
  EXPECT_EQ(work->verify().compared, 3u * 2 * 8) << "three workers, two operations";
  const auto found = work->metrics();
  const std::map<std::string, double> metrics(found.begin(), found.end());
  EXPECT_EQ(metrics.at("sms"), 3);
  EXPECT_EQ(metrics.at("products"), 48);
  EXPECT_EQ(metrics.at("share_checked"), 1);
  EXPECT_NEAR(metrics.at("least_rate_found"), 2.996 / 16, 1e-3);
  EXPECT_FALSE(metrics.contains("wrong_sm"));
  work->corrupt();
  EXPECT_EQ(work->verify().first.find("worker 0 has 1 wrong words in 1 of 24 "), 0u) << work->verify().first;
}

/// A worker whose results have a wrong bit in some words of one in five products.
struct FaultyWorker : host::SoundWorker {
  static float computed(float exact, std::size_t worker, unsigned long long product, std::size_t word) {
    return worker == 1 && product % 5 == 3 && word % 8 == 2 ? exact + 1 : exact;
  }
};
/// All workers compute the same wrong word.
struct FaultyReference : host::SoundWorker {
  static float computed(float exact, std::size_t, unsigned long long, std::size_t word) {
    return word == 7 ? exact + 1 : exact;
  }
};

TEST(TileProducts, NameTheWorkerWhoseProductsAreWrong) {
  host::Team team(3);
  host::TileProducts<FaultyWorker> work(small_tiles, team);
  work.enqueue();
  const auto check = work.verify();
  EXPECT_EQ(check.mismatched, 1u);
  EXPECT_EQ(check.compared, 24u);
  EXPECT_EQ(check.first.find("worker 1 has 64 "), 0u) << check.first;
  EXPECT_NE(check.first.find(" in 1 of 8 "), std::string::npos) << check.first;
  EXPECT_NE(check.first.find(" tile 4, row 0, column 2: "), std::string::npos) << check.first;
  const auto found = work.metrics();
  EXPECT_EQ((std::map<std::string, double>(found.begin(), found.end()).at("wrong_sm")), 1);
}

TEST(TileProducts, NameNoWorkerIfMostDiffer) {
  host::Team team(3);
  host::TileProducts<FaultyReference> work(small_tiles, team);
  work.enqueue();
  const auto check = work.verify();
  EXPECT_EQ(check.mismatched, 24u);
  EXPECT_EQ(check.first.find("3 of 3 workers differ from the exact result, so no worker is named; "), 0u)
      << check.first;
  const auto found = work.metrics();
  EXPECT_FALSE((std::map<std::string, double>(found.begin(), found.end()).contains("wrong_sm")));
}

TEST(TileProducts, HaveExactSumsThatDoNotDependOnTheOrder) {
  const TileShape shape{4, 8, 512, 32};
  const auto exact = expected_tile(shape, 5);
  for (int i = 0; i < shape.m; ++i) {
    for (int j = 0; j < shape.n; ++j) {
      double sum = 0;
      for (int part = 0; part < shape.slabs_of_tile(); ++part) {
        for (int a = 0; a < 32; a += 16) {
          for (int b = 0; b < 32; ++b) {
            const int slab = shape.slab_of(5, part);
            sum += tile_element(slab, i, a + b % 16) * tile_element(slab, shape.m + j, b);
          }
        }
      }
      EXPECT_EQ(exact[static_cast<std::size_t>(i * shape.n + j)], sum);
    }
  }
}

TEST_F(HostBackend, SumsOverRanks) {
  for (const std::size_t bytes : {8u, 4096u, 1000008u}) {
    check_all_ways(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, bytes});
    check_all_ways(CollectiveSpec{CollectiveOp::all_reduce, DType::f64, bytes});
  }
}

TEST_F(HostBackend, MovesAndSumsByEveryCollective) {
  for (const auto op : {CollectiveOp::all_gather, CollectiveOp::reduce_scatter, CollectiveOp::alltoall,
                        CollectiveOp::broadcast, CollectiveOp::reduce, CollectiveOp::sendrecv}) {
    for (const std::size_t bytes : {4u, 8u, 1000008u}) check_all_ways(CollectiveSpec{op, DType::f32, bytes});
  }
}

TEST_F(HostBackend, ExchangesUnequalParts) {
  for (const std::size_t bytes : {4u, 1000008u}) check_all_ways(ExchangeSpec{bytes, 1, 2});
  EXPECT_THROW(device_->prepare(ExchangeSpec{1001, 1, 0}), std::invalid_argument);
  EXPECT_THROW(device_->prepare(ExchangeSpec{1000, 2, 0})->connect(group_), std::logic_error);
}

TEST_F(HostBackend, MultipliesAndCopiesAtTheSameTime) {
  check_all_ways(BurnSpec{{DType::f32, 64, 64, 64}, Engine::cpu, std::size_t{1} << 16}, false);
}

TEST_F(HostBackend, ExchangesTokensWithExperts) {
  for (const auto op : {MoeOp::dispatch, MoeOp::combine}) {
    check_all_ways(MoeSpec{.op = op, .experts = 16, .top = 3, .hidden = 24, .tokens = 65});
    EXPECT_THROW(device_->prepare(MoeSpec{.op = op, .hidden = 12}), std::invalid_argument);
    EXPECT_THROW(device_->prepare(MoeSpec{.op = op, .experts = 3, .ranks = 4}), std::invalid_argument);
    EXPECT_THROW(device_->prepare(MoeSpec{.op = op, .hidden = 8, .tokens = 4, .ranks = 2})->connect(group_),
                 std::logic_error);
  }
}

TEST_F(HostBackend, TrainsASmallModel) {
  using training::Retain;
  for (const auto dtype : {DType::f32, DType::f64}) {
    for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
      check_all_ways(LoraStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = dtype, .retain = retain});
    }
  }
  check_all_ways(LoraStepSpec{.model = "tiny", .batch = 1, .seq = 16, .dtype = DType::f64, .accumulation = 2});
  for (const char* const model : {"gpt2_tiny", "encoder_tiny", "tiny"}) {
    check_all_ways(TrainStepSpec{.model = model, .batch = 2, .seq = 16, .dtype = DType::f32});
  }
  check_all_ways(TrainStepSpec{.model = "gpt2_tiny", .batch = 1, .seq = 16, .dtype = DType::f64, .accumulation = 2});
}

TEST_F(HostBackend, TrainsASmallModelWithProductsInFp8) {
  const auto train = [&](const auto& spec) {
    const auto work = ready(spec);
    timed(*work, 3);
    const auto good = work->verify();
    EXPECT_TRUE(good.passed()) << good.first;
    work->corrupt();
    EXPECT_FALSE(work->verify().passed());
  };
  train(LoraStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::fp8_e4m3});
  train(TrainStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::fp8_e4m3});
}

TEST_F(HostBackend, WritesAndReadsCheckpointsAndLeavesNothingBehind) {
  const auto folder = std::filesystem::temp_directory_path() / ("shakedown-device-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  for (const auto op : {CheckpointOp::write, CheckpointOp::read}) {
    for (const auto dtype : {DType::f32, DType::f64}) {
      check_all_ways(CheckpointSpec{op, {.model = "gpt2_tiny", .batch = 1, .seq = 16, .dtype = dtype}, 2, folder});
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  const auto work = device_->prepare(
      CheckpointSpec{CheckpointOp::read, {.model = "tiny", .batch = 1, .seq = 16, .dtype = DType::f32}, 2, folder});
  try {
    work->connect(group_);
    FAIL() << "the folder is not there";
  } catch (const Unsupported& why) {
    EXPECT_NE(std::string(why.what()).find("No such file or directory"), std::string::npos) << why.what();
  }
}

TEST_F(HostBackend, SaysThatADiskWasFullInsteadOfWrongData) {
  const auto folder = std::filesystem::temp_directory_path() / ("shakedown-device-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto work = ready(CheckpointSpec{
      CheckpointOp::write, {.model = "gpt2_tiny", .batch = 1, .seq = 16, .dtype = DType::f32}, 2, folder});
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto limit = before;
  limit.rlim_cur = 1000;  // maximum file size
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  timed(*work, 2);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(work->obstacle().find("No space left on device"), std::string::npos) << work->obstacle();
  work->reset();
  timed(*work, 1);
  EXPECT_EQ(work->obstacle(), "");
  EXPECT_TRUE(work->verify().passed()) << "there is room again";
  std::filesystem::remove_all(folder);
}

TEST_F(HostBackend, SaysHowAStepOfTrainingSpendsItsTimeAndMemory) {
  const auto work = ready(LoraStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
  timed(*work, 3);
  ASSERT_TRUE(work->verify().passed());
  std::map<std::string, double> figures;
  for (const auto& [name, value] : work->metrics()) figures[name] = value;
  EXPECT_LT(figures.at("last_loss"), figures.at("first_loss"));
  EXPECT_EQ(figures.at("planned_gb"), static_cast<double>(work->bytes()) / 1e9);
  EXPECT_GE(figures.at("peak_gb"), figures.at("planned_gb"));
  for (const auto* phase : {"forward_ms", "backward_ms", "optimizer_ms", "compute_ms"}) EXPECT_GT(figures.at(phase), 0);
  EXPECT_EQ(figures.count("exposed_comm_ms"), 0u) << "one rank has nothing to wait for";
  EXPECT_EQ(figures.count("exchange_wait_ms"), 0u);
}

TEST_F(HostBackend, DividesTheTimeOfAProfiledStepWithoutGapsOrOverlaps) {
  const auto work = ready(TrainStepSpec{.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
  timed(*work, 2);
  ASSERT_TRUE(work->verify().passed());
  const auto profile = work->profile();
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->steps.size(), 5u);
  constexpr double rounding_ms = 1e-6;
  double end_of_last = 0;
  for (const auto& step : profile->steps) {
    EXPECT_GE(step.begin_ms, end_of_last - rounding_ms);
    end_of_last = step.begin_ms + step.ms;
    double end = 0;
    for (const auto& part : step.parts) {
      EXPECT_GE(part.begin_ms, end - rounding_ms) << part.name;
      end = part.begin_ms + part.ms;
    }
    EXPECT_LE(end, step.ms + rounding_ms);
    EXPECT_EQ(step.parts.size(), profile->steps.front().parts.size());
  }
  const auto mean = time_by_class(*profile);
  double sum = mean.fixed_ms;
  for (const double milliseconds : mean.milliseconds) sum += milliseconds;
  EXPECT_NEAR(sum, mean.whole_ms, 1e-9);
  for (const auto each :
       {PartClass::gemm, PartClass::attention, PartClass::pointwise, PartClass::loss, PartClass::update}) {
    EXPECT_GT(mean.milliseconds[static_cast<std::size_t>(each)], 0) << name(each);
  }
  EXPECT_GE(mean.fixed_ms, -rounding_ms);
}

TEST_F(HostBackend, CountsEachProductOfAProfiledStep) {
  const auto work = ready(TrainStepSpec{.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
  const auto profile = work->profile();
  ASSERT_TRUE(profile);
  const auto model = training::preset("gpt2_tiny").model;
  std::size_t products = 0, attentions = 0;
  for (const auto& part : profile->steps.front().parts) {
    products += part.part_class == PartClass::gemm ? 1 : 0;
    attentions += part.part_class == PartClass::attention ? 1 : 0;
  }
  // A layer has four projections, each with its gradients of the input and of the weights; the head has the same three.
  EXPECT_EQ(products, 12 * model.layers + 3);
  EXPECT_EQ(attentions, 2 * model.layers);
}

TEST_F(HostBackend, ComputesTheSameWithAProfileAsWithoutOne) {
  const LoraStepSpec spec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::f64};
  const auto checksum = [&](bool profiled) {
    const auto work = ready(spec);
    timed(*work, 2);
    EXPECT_EQ(profiled && work->profile().has_value(), profiled);
    work->reset();
    timed(*work, 2);
    EXPECT_TRUE(work->verify().passed());
    for (const auto& [name, value] : work->metrics()) {
      if (name == "checksum") return value;
    }
    return -1.0;
  };
  EXPECT_EQ(checksum(true), checksum(false));
}

TEST_F(HostBackend, HasNoProfileOfAnOperationWithoutParts) {
  EXPECT_FALSE(ready(GemmSpec{.dtype = DType::f32, .m = 64, .n = 64, .k = 64})->profile());
}

TEST_F(HostBackend, StopsAStepOfTrainingAtANumberThatIsNone) {
  const auto work = ready(LoraStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
  timed(*work, 2);
  work->poison_input();
  timed(*work, 2);
  const auto check = work->verify();
  EXPECT_FALSE(check.passed());
  EXPECT_NE(check.first.find("step 3: loss"), std::string::npos) << check.first;
  EXPECT_NE(check.first.find("not finite"), std::string::npos) << check.first;
  work->reset();
  timed(*work, 2);
  EXPECT_TRUE(work->verify().passed()) << work->verify().first;
}

TEST_F(HostBackend, StopsAStepOfAWholeModelAtANumberThatIsNone) {
  for (const char* const model : {"gpt2_tiny", "encoder_tiny"}) {
    const auto work = ready(TrainStepSpec{.model = model, .batch = 2, .seq = 16, .dtype = DType::f32});
    timed(*work, 2);
    work->poison_input();
    timed(*work, 2);
    EXPECT_NE(work->verify().first.find("step 3: loss"), std::string::npos) << work->verify().first;
    work->reset();
    timed(*work, 2);
    EXPECT_TRUE(work->verify().passed()) << work->verify().first;
  }
}

TEST_F(HostBackend, MissesAStepOfTrainingThatDidNotRun) {
  const auto work = ready(LoraStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
  work->stage(3);
  work->enqueue_batch(2);
  EXPECT_NE(work->verify().first.find("2 steps "), std::string::npos);
}

TEST_F(HostBackend, RefusesTrainingForAnotherNumberOfRanks) {
  const auto work =
      device_->prepare(LoraStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::f32, .ranks = 2});
  EXPECT_THROW(work->connect(group_), std::logic_error);
}

TEST_F(HostBackend, HasNothingToDoInPlaceForOneRank) {
  const auto work = device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 8, 1, Place::in});
  EXPECT_THROW(work->connect(group_), Unsupported);
}

TEST_F(HostBackend, RefusesACollectiveForAnotherNumberOfRanks) {
  const auto work = device_->prepare(CollectiveSpec{CollectiveOp::alltoall, DType::f32, 8, 2});
  EXPECT_THROW(work->connect(group_), std::logic_error);
}

TEST_F(HostBackend, RefusesASumOverTheNetworkOfOneRank) {
  CollectiveSpec spec{CollectiveOp::all_reduce, DType::f32, 8};
  spec.via = Via::net;
  EXPECT_EQ(key(spec), "allreduce/dtype:f32/bytes:8/via:net");
  EXPECT_THROW(device_->prepare(spec)->connect(group_), Unsupported);
  spec.op = CollectiveOp::alltoall;
  EXPECT_THROW(device_->prepare(spec), std::invalid_argument);
}

TEST_F(HostBackend, HasNoSymmetricMemory) {
  CollectiveSpec spec{CollectiveOp::all_reduce, DType::f32, 8};
  spec.memory = Memory::symmetric;
  EXPECT_EQ(key(spec), "allreduce/dtype:f32/bytes:8/memory:symmetric");
  EXPECT_THROW(device_->prepare(spec), Unsupported);
}

TEST_F(HostBackend, SaysWhatItCannotDo) {
  EXPECT_THROW(device_->prepare(GemmSpec{DType::bf16, 8, 8, 8}), Unsupported);
  EXPECT_THROW(device_->prepare(GemmSpec{DType::mxfp8, 32, 32, 32}), Unsupported);
  EXPECT_THROW(device_->prepare(GemmSpec{DType::f32, 8, 8, 8, Accumulate::exact}), Unsupported);
  EXPECT_THROW(device_->prepare(HbmSpec{HbmOp::copy, Engine::sm, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(MemoryLatencySpec{Engine::sm, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(PcieSpec{PcieOp::h2d, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(LaunchSpec{.op = LaunchOp::kernel}), Unsupported);
  EXPECT_THROW(device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::int8, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 8, 1, Place::out, Launch::graph}),
               Unsupported);
  EXPECT_THROW(device_->prepare(CollectiveSpec{CollectiveOp::reduce, DType::bf16, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(LoraStepSpec{.model = "tiny", .batch = 2, .seq = 16}), Unsupported);
  EXPECT_THROW(device_->prepare(LoraStepSpec{.model = "tiny", .dtype = DType::f32, .sums = DType::bf16}), Unsupported);
}

TEST_F(HostBackend, NamesAnOperationThatItDoesNotHave) {
  const auto reason_for = [&](const Spec& spec) -> std::string {
    try {
      device_->prepare(spec);
    } catch (const Unsupported& reason) {
      return reason.what();
    }
    return "";
  };
  EXPECT_EQ(reason_for(PcieSpec{PcieOp::h2d, 4096}), "the host backend has no GPU to copy to or from");
}

TEST_F(HostBackend, WaivesWhatDoesNotFitWithTheBytesNeededAndFree) {
  try {
    device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, std::size_t{1} << 50});
    FAIL() << "a petabyte was allocated";
  } catch (const Unsupported& reason) {
    const std::string text = reason.what();
    EXPECT_NE(text.find("needs 2251799.8 GB of the host's memory on each of 1 ranks"), std::string::npos) << text;
    EXPECT_NE(text.find("GB free"), std::string::npos) << text;
  }
  try {
    device_->prepare(LoraStepSpec{.model = "qwen2_7b", .batch = 4096, .seq = 4096, .dtype = DType::f32});
    FAIL() << "a hundred terabytes were allocated";
  } catch (const Unsupported& reason) {
    EXPECT_NE(std::string(reason.what()).find("needs "), std::string::npos) << reason.what();
  }
}

TEST_F(HostBackend, RefusesSizesThatAreNoWholeNumberOfElements) {
  EXPECT_THROW(device_->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 6}), std::invalid_argument);
  EXPECT_THROW(device_->prepare(HbmSpec{HbmOp::copy, Engine::cpu, 0}), std::invalid_argument);
}

}  // namespace
}  // namespace shakedown::host_device_test
