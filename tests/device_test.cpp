// The seam: names, keys, sizes and costs of the specs.
#include "kernels/device.hpp"

#include <gtest/gtest.h>

namespace shakedown {
namespace {

TEST(Key, NamesFamilyAndEveryParameter) {
  EXPECT_EQ(key(GemmSpec{DType::bf16, 8192, 8192, 4096}), "gemm/dtype:bf16/m:8192/n:8192/k:4096");
  EXPECT_EQ(key(HbmSpec{HbmOp::copy, Engine::sm, 1024}), "hbm/op:copy/engine:sm/bytes:1024");
  EXPECT_EQ(key(PeerCopySpec{CopyOp::read, Engine::ce, 0, 3, 64}), "p2p/op:read/engine:ce/src:0/dst:3/bytes:64");
  EXPECT_EQ(key(MemoryTestSpec{TestPattern::random, std::nullopt}), "memtest/pattern:random/bytes:free");
  EXPECT_EQ(key(MemoryTestSpec{TestPattern::address, 4096}), "memtest/pattern:address/bytes:4096");
  EXPECT_EQ(key(AllReduceSpec{DType::f32, 8}), "allreduce/dtype:f32/bytes:8");
}

TEST(Cost, CountsWhatTheLiteratureCounts) {
  EXPECT_EQ(cost(GemmSpec{DType::f32, 2, 3, 5}).flops, 60);
  EXPECT_EQ(cost(HbmSpec{HbmOp::copy, Engine::cpu, 100}).bytes, 200);
  EXPECT_EQ(cost(HbmSpec{HbmOp::read, Engine::sm, 100}).bytes, 100);
  EXPECT_EQ(cost(HbmSpec{HbmOp::write, Engine::sm, 100}).bytes, 100);
  EXPECT_EQ(cost(HbmSpec{HbmOp::scale, Engine::sm, 100}).bytes, 200);
  EXPECT_EQ(cost(HbmSpec{HbmOp::add, Engine::sm, 100}).bytes, 300);
  EXPECT_EQ(cost(HbmSpec{HbmOp::triad, Engine::sm, 100}).bytes, 300);
  EXPECT_EQ(cost(MemoryTestSpec{TestPattern::random, 100}).bytes, 200);
  EXPECT_EQ(cost(PeerCopySpec{CopyOp::read, Engine::cpu, 0, 1, 100}).bytes, 100);
  EXPECT_EQ(cost(AllReduceSpec{DType::f64, 100}).bytes, 100);
}

TEST(Cost, OfLargeProductsDoesNotOverflow) {
  EXPECT_DOUBLE_EQ(cost(GemmSpec{DType::bf16, 16384, 16384, 16384}).flops, 8796093022208.0);
}

TEST(Footprint, CountsInputsAndOutputs) {
  EXPECT_EQ(footprint(GemmSpec{DType::f64, 2, 3, 5}), (10u + 15u + 6u) * 8u);
  EXPECT_EQ(footprint(AllReduceSpec{DType::f32, 8}), 16u);
  EXPECT_EQ(footprint(HbmSpec{HbmOp::read, Engine::sm, 8}), 8u);
  EXPECT_EQ(footprint(HbmSpec{HbmOp::triad, Engine::sm, 8}), 24u);
}

TEST(ACheck, ThatComparedNothingHasNotPassed) { EXPECT_FALSE(Check{}.passed()); }

}  // namespace
}  // namespace shakedown
