// Streams over the memory of one GPU: every shape of every kernel at even and ragged sizes, and the Works built on
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/chase.hpp"
#include "kernels/cuda/chase.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/memory_walk.hpp"
#include "kernels/cuda/stream.hpp"
#include "kernels/ops/collective.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/gemm.hpp"
#include "tests/kernels/cuda/on_gpu.hpp"

namespace shakedown::cuda {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr HbmOp every_op[] = {HbmOp::copy, HbmOp::read, HbmOp::write, HbmOp::scale, HbmOp::add, HbmOp::triad};

std::string text(HbmOp op, const StreamShape& shape) {
  return std::string(name(op)) + " " + std::to_string(shape.threads) + " threads x " + std::to_string(shape.unroll) +
         ", " + std::to_string(shape.blocks_per_sm) + " blocks per SM, hint " +
         std::to_string(static_cast<int>(shape.hint)) + ", stages of " + std::to_string(shape.stage_bytes);
}

/// Returns a few important sizes and some random ones. The seed is fixed, so that failures are reproducible.
std::vector<std::size_t> sizes_for(HbmOp op) {
  std::vector<std::size_t> sizes{8, 16, 24, 4096, 4 * mib, 4 * mib + 8};
  std::mt19937_64 random(1);
  for (int i = 0; i < 6; ++i) sizes.push_back((random() % (3 * mib) + 1) * 8);
  if (op == HbmOp::copy) {
    for (const std::size_t ragged : {std::size_t{1}, std::size_t{15}, std::size_t{17}, 100003 + 4 * mib}) {
      sizes.push_back(ragged);
    }
  }
  return sizes;
}

TEST(StreamShapes, AreOfTheGpuAndOfTheKernels) {
  for (const auto op : every_op) {
    ASSERT_FALSE(stream_shapes(op).empty());
    bool any = false;
    for (const auto& shape : stream_shapes(op)) {
      any = any || runs_on(shape, 8);
      EXPECT_EQ(shape.hint == Hint::pairs, !runs_on(shape, 9)) << text(op, shape);
      EXPECT_TRUE(!shape.bulk() || op == HbmOp::copy || op == HbmOp::read) << text(op, shape);
      EXPECT_GE(most_stream_blocks(op, 64 * mib, 132), stream_blocks(shape, 64 * mib, 132)) << text(op, shape);
      EXPECT_EQ(stream_blocks(shape, 8, 132), 1U) << text(op, shape);
    }
    EXPECT_TRUE(any) << "nothing runs on a GPU before compute capability 9.0";
  }
}

TEST(CudaWords, ContentsAreThoseOfTheReference) {
  const auto at = [](Content content, std::size_t i) {
    return std::bit_cast<double>(WordPattern{800, 6, content}.at(i));
  };
  for (std::size_t i = 0; i < 100; ++i) {
    const double a = reference::stream_number(i, 6), b = reference::stream_number(i, 7);
    EXPECT_EQ(at(Content::number, i), a);
    EXPECT_EQ(at(Content::scaled, i), 3 * a);
    EXPECT_EQ(at(Content::added, i), a + b);
    EXPECT_EQ(at(Content::triad, i), a + 3 * b);
    EXPECT_EQ((WordPattern{800, 6, Content::written}.at(i)), reference::written_word(i, 6));
  }
}

/// Runs one shape of one operation on known data and returns the result of its check.
class Streams : public OnGpu {
 protected:
  Check run(HbmOp op, const StreamShape& shape, std::size_t bytes) {
    const Buffer a(bytes), b(bytes), c(bytes);
    const bool numbers = op == HbmOp::scale || op == HbmOp::add || op == HbmOp::triad;
    fill_words(*gpu_, a, 6, numbers ? Content::number : Content::copied);
    fill_words(*gpu_, b, 7, Content::number);
    poison(*gpu_, c);
    const Buffer sums(8 * stream_blocks(shape, bytes, gpu_->multiprocessors()));
    poison(*gpu_, sums);
    const Operands operands{a.data(), b.data(), c.data(), sums.data<std::uint64_t>(), bytes, 6};
    stream_over(gpu_->stream(), op, operands, shape, gpu_->multiprocessors());
    if (op != HbmOp::read) return check_words(*gpu_, c, 6, content(op));

    std::uint64_t got = 0, want = 0;
    for (const auto sum : download<std::uint64_t>(sums)) got += sum;
    for (std::size_t i = 0; i < bytes / 8; ++i) want += reference::copy_word(i, 6);
    return {1, got == want ? 0U : 1U, std::to_string(got) + ", expected " + std::to_string(want)};
  }

  static Content content(HbmOp op) {
    switch (op) {
      case HbmOp::write: return Content::written;
      case HbmOp::scale: return Content::scaled;
      case HbmOp::add: return Content::added;
      case HbmOp::triad: return Content::triad;
      case HbmOp::copy:
      case HbmOp::read: break;
    }
    return Content::copied;
  }
};

TEST_F(Streams, EveryShapeReachesEveryByte) {
  for (const auto op : every_op) {
    for (const auto& shape : stream_shapes(op)) {
      // Shapes of pairs have kernels for any GPU, which access single vectors before compute capability 10.0.
      if (!runs_on(shape, gpu_->major()) && shape.hint != Hint::pairs) continue;
      for (const auto bytes : sizes_for(op)) {
        const Check check = run(op, shape, bytes);
        ASSERT_TRUE(check.passed()) << text(op, shape) << ", " << bytes << " bytes: " << check.mismatched << " of "
                                    << check.compared << " wrong: " << check.first;
      }
    }
  }
}

TEST_F(OnGpu, HbmStreams) {
  for (const auto op : every_op) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{16}, std::size_t{100008}, 16 * mib}) {
      expect_work_is_checked(HbmSpec{op, Engine::sm, bytes}, bytes / 8);
    }
  }
}

TEST_F(OnGpu, HbmCopiesOfAnyNumberOfBytes) {
  for (const auto engine : {Engine::sm, Engine::ce}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{16}, std::size_t{100003}, 64 * mib}) {
      expect_work_is_checked(HbmSpec{HbmOp::copy, engine, bytes}, (bytes + 7) / 8);
    }
  }
}

TEST_F(OnGpu, AWrongWordUnderAReadIsFoundWhereItIs) {
  const Buffer buffer(16 * mib);
  fill_words(*gpu_, buffer, 3);
  flip_one_bit(*gpu_, buffer);
  const Check check = check_words(*gpu_, buffer, 3);
  EXPECT_EQ(check.mismatched, 1U);
  EXPECT_TRUE(contains(check.first, "byte " + std::to_string(8 * mib) + ":"));
}

TEST_F(OnGpu, ADigestIsThatOfTheHostAndReadsAsFastAsAGpuCan) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{100003}, 16 * mib}) {
    const Buffer buffer(bytes);
    gpu_->fill(buffer, 0x5a);
    if (bytes % 8 == 0) fill_words(*gpu_, buffer, 3);
    const auto here = download<std::byte>(buffer);
    EXPECT_EQ(digest_of(*gpu_, buffer), shakedown::digest_of(std::span<const std::byte>(here))) << bytes;
  }
  const Buffer large(1024 * mib);
  fill_words(*gpu_, large, 3);
  const auto once = digest_of(*gpu_, large);
  EXPECT_EQ(digest_of(*gpu_, View(large).part(0, 1024 * mib)), once);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(digest_of(*gpu_, large), once);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double rate = 50.0 * 1024 * mib / took.count() / 1e12;
  std::printf("digest: %.2f TB/s\n", rate);
  if (device_->info().name.find("H200") != std::string::npos) {
    EXPECT_GT(rate, 2.5);
  }
}

TEST_F(OnGpu, ProductsCollectivesAndCopiesLeaveTheSameBitsEachTime) {
  for (const Spec& spec :
       {Spec(GemmSpec{DType::f32, 1024, 1024, 1024}), Spec(GemmSpec{DType::bf16, 2048, 2048, 2048}),
        Spec(GemmSpec{DType::fp8_e4m3, 4096, 4096, 4096}), Spec(GemmSpec{DType::f64, 512, 512, 512}),
        Spec(HbmSpec{HbmOp::triad, Engine::sm, 16 * mib}), Spec(HbmSpec{HbmOp::read, Engine::sm, mib}),
        Spec(HbmSpec{HbmOp::copy, Engine::ce, 16 * mib}),
        Spec(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 4 * mib, 1})}) {
    const auto work = device_->prepare(spec);
    work->connect(group_);
    const auto in_connect = work->runs_in_connect() ? work->digest() : std::nullopt;
    work->reset();
    std::set<std::uint64_t> digests;
    for (int i = 0; i < 44; ++i) {
      work->stage(1);
      static_cast<void>(device_->seconds(*work, 1));
      digests.insert(work->digest().value());
    }
    EXPECT_TRUE(work->verify().passed());
    EXPECT_EQ(digests.size(), 1U) << spec.description;
    if (in_connect) {
      EXPECT_EQ(*digests.begin(), *in_connect) << "what was tuned";
    }
  }
}

// Each connect may choose another shape of the kernel, and a row is measured twice if a GPU seemed slow.
TEST_F(OnGpu, BitsOfAReadDoNotDependOnHowManyBlocksAddUp) {
  constexpr std::size_t words = 4 * mib / 8;
  const auto work = device_->prepare(HbmSpec{HbmOp::read, Engine::sm, 8 * words});
  work->connect(group_);
  work->reset();
  work->stage(1);
  static_cast<void>(device_->seconds(*work, 1));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words; ++i) sum += reference::copy_word(i, 0);
  EXPECT_EQ(work->digest().value(), sum);
}

TEST_F(OnGpu, MovingInversionsReadAndInvertInBothDirections) {
  const Buffer buffer(mib), walked(sizeof(Walked));
  const Walked nothing;
  const Piece piece{buffer.data<std::uint64_t>(), 0, mib / 8};
  const auto wrong = [&](std::uint64_t inversion, Pass pass) {
    gpu_->write(walked.data(), &nothing, sizeof nothing);
    check_piece(gpu_->stream(), piece, TestPattern::moving, inversion, walked.data<Walked>(), pass);
    return gpu_->read(walked.data<const Walked>()).mismatched;
  };
  write_piece(gpu_->stream(), piece, TestPattern::moving, 0);
  EXPECT_EQ(wrong(0, Pass::up), 0U);
  EXPECT_EQ(wrong(~std::uint64_t{0}, Pass::down), 0U) << "the complement was written upwards";
  EXPECT_EQ(wrong(0, Pass::look), 0U) << "and the words again downwards";
  flip_one_bit(*gpu_, buffer);
  EXPECT_EQ(wrong(0, Pass::up), 1U);
  EXPECT_EQ(wrong(~std::uint64_t{0}, Pass::look), 0U) << "what was wrong is written anew";
}

TEST_F(OnGpu, MemoryIsTestedBesideProducts) {
  const auto work = device_->prepare(MemoryTestSpec{TestPattern::moving, 4096 * mib, true});
  work->connect(group_);
  work->reset();
  EXPECT_GT(device_->seconds(*work, 3), 0);
  const Check check = work->verify();
  EXPECT_TRUE(check.passed()) << check.first;
  EXPECT_EQ(check.compared, (4 * 3 + 1) * 4096 * mib / 8) << "four walks, one of them in front, of three looks each";
  work->corrupt();
  EXPECT_EQ(work->verify().mismatched, 1U);
}

TEST_F(OnGpu, MemoryTestFindsAWrongWordAndItsAddress) {
  for (const auto pattern : {TestPattern::address, TestPattern::complement, TestPattern::alternating,
                             TestPattern::random, TestPattern::moving}) {
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{100016}, 64 * mib}) {
      const MemoryTestSpec spec{pattern, bytes};
      SCOPED_TRACE(key(spec));
      const auto work = device_->prepare(spec);
      work->connect(group_);
      EXPECT_FALSE(work->verify().passed()) << "poison passed the check";
      work->reset();
      EXPECT_GT(device_->seconds(*work, 2), 0);
      const Check check = work->verify();
      EXPECT_TRUE(check.passed()) << check.first;
      EXPECT_GE(check.compared, 3 * bytes / 8);  // at least two timed passes and the final one
      work->reset();
      EXPECT_GT(device_->seconds(*work, 1), 0);
      EXPECT_TRUE(work->verify().passed()) << "after a walk more or less, which has the complement";
      work->corrupt();
      const Check corrupted = work->verify();
      EXPECT_EQ(corrupted.mismatched, 1U);
      char place[64];
      std::snprintf(place, sizeof place, "byte 0x%zx at address 0x", bytes / 16 * 8);
      EXPECT_TRUE(contains(corrupted.first, place));
      EXPECT_TRUE(contains(corrupted.first, "expected"));
    }
  }
}

TEST_F(OnGpu, MemoryTestTakesNearlyAllThatIsFree) {
  const auto before = free_memory();
  const auto work = device_->prepare(MemoryTestSpec{TestPattern::address, std::nullopt});
  work->connect(group_);
  EXPECT_GT(static_cast<double>(work->bytes()), static_cast<double>(before) - 0.8e9);
  EXPECT_GT(free_memory(), 400 * mib);
  EXPECT_GT(device_->seconds(*work, 1), 0);
  const Check check = work->verify();
  EXPECT_TRUE(check.passed()) << check.first;
  EXPECT_EQ(check.compared, 2 * work->bytes() / 8);
  EXPECT_EQ(work->metrics().front().first, "capacity_gb");
}

TEST_F(OnGpu, AChaseVisitsTheWholeChain) {
  for (const std::size_t nodes : {1, 2, 64, 16384}) {  // fewer than multiprocessors, and more
    const auto chain = chase::chain(nodes);
    std::vector<std::uint64_t> words(chain.size() * chase::node_bytes / 8);
    for (std::size_t node = 0; node < chain.size(); ++node) words[node * chase::node_bytes / 8] = chain[node];
    const auto memory = upload(words);
    const Buffer result(sizeof(ChaseResult));
    for (const int multiprocessors : {1, 7, gpu_->multiprocessors()}) {
      poison(*gpu_, result);
      chase_pointers(gpu_->stream(), memory.data(), chain.size(), result.data<ChaseResult>(), multiprocessors);
      const auto got = gpu_->read(result.data<const ChaseResult>());
      EXPECT_EQ(got.last & 0xffffffffU, 0U) << nodes << " nodes, " << multiprocessors << " blocks";
      EXPECT_EQ(got.sum, chase::sum(chain)) << nodes << " nodes, " << multiprocessors << " blocks";
    }
  }
}

TEST_F(OnGpu, Pcie) {
  for (const auto op : {PcieOp::h2d, PcieOp::d2h, PcieOp::both}) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{100008}, 16 * mib}) {
      expect_work_is_checked(PcieSpec{op, bytes}, bytes / 8);
      expect_work_is_checked(PcieSpec{op, bytes, 0}, bytes / 8);
    }
  }
}

// The driver clears the memory that a memory test has freed with the copy engine that also copies from the host.
TEST_F(OnGpu, CopiesFromTheHostAreAsFastBehindAMemoryTestAsBeforeIt) {
  const auto seconds_of = [&](const Spec& spec) {
    const auto work = device_->prepare(spec);
    work->connect(group_);
    work->reset();
    work->stage(3);
    return device_->seconds(*work, 3);
  };
  const PcieSpec copy{PcieOp::h2d, 256 * mib};
  seconds_of(copy);
  const double before = seconds_of(copy);
  seconds_of(MemoryTestSpec{TestPattern::random, std::nullopt});
  EXPECT_LT(seconds_of(copy), 1.3 * before);
}

TEST_F(OnGpu, WorksGiveTheirMemoryBackSoThatTheNextFamilyHasIt) {
  const auto use = [&](const Spec& spec) {
    const auto work = device_->prepare(spec);
    work->connect(group_);
    work->reset();
    work->stage(1);
    EXPECT_GT(device_->seconds(*work, 1), 0);
  };
  const auto free_memory = [] {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    return free;
  };
  const std::vector<Spec> specs{HbmSpec{HbmOp::copy, Engine::sm, 1024 * mib},
                                HbmSpec{HbmOp::copy, Engine::ce, 1024 * mib},
                                MemoryTestSpec{TestPattern::random, 1024 * mib},
                                GemmSpec{DType::bf16, 8192, 8192, 8192},
                                PcieSpec{PcieOp::both, 256 * mib},
                                CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 256 * mib, 1}};
  for (const auto& spec : specs) use(spec);  // libraries and the communicator keep memory from their first use
  const auto before = free_memory();
  for (const auto& spec : specs) {
    use(spec);
    EXPECT_GE(free_memory() + 64 * mib, before)
        << "of " << specs.size() << " the one of index " << &spec - specs.data();
  }
}

TEST_F(OnGpu, ACopyEngineOnlyCopies) {
  EXPECT_THROW(device_->prepare(HbmSpec{HbmOp::triad, Engine::ce, 4096}), Unsupported);
  EXPECT_THROW(device_->prepare(HbmSpec{HbmOp::triad, Engine::sm, 4097}), std::invalid_argument);
}

}  // namespace
}  // namespace shakedown::cuda
