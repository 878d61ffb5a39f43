// Decode on the host: the forward pass of a whole sequence as its reference, its check, and its cost.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/group.hpp"
#include "kernels/device.hpp"
#include "kernels/transformer/decode.hpp"
#include "kernels/transformer/host/decode_ops.hpp"

namespace shakedown::decode_test {
namespace {

using training::Matrix;

/// The forward pass of all tokens of a sequence, with the operations of a training step and the weights of a decoder.
class Prefill {
 public:
  using Model = training::Decoder<host::DecodeOps<double>>;

  Prefill(const Model& model, host::Team& team) : model_(model), ops_(team) {}

  /// Returns the logits of all tokens, one row for each.
  std::vector<double> logits(const std::vector<int>& tokens) {
    const auto& m = model_.shape();
    const auto count = tokens.size();
    auto x = matrix(count, m.hidden);
    ops_.embedding(model_.embedding(), tokens.data(), {}, count, x);
    const auto table = training::rotation_table<double>(count, m.head_dim, m.rope_theta);
    const training::AttentionShape attention{1, count, m.heads, m.kv_heads, m.head_dim};
    for (std::size_t l = 0; l < m.layers; ++l) {
      const auto& layer = model_.layers()[l];
      auto qkv = product(normalized(x, layer.norm1), layer.qkv.plain, {}, layer.bias);
      ops_.rope(qkv, table.data(), attention, training::Rotation::forward);
      auto attended = matrix(count, m.q_width());
      auto lse = matrix(count, m.heads);
      ops_.attention(qkv, attended, lse.data, attention);
      const auto middle = product(attended, layer.o.plain, x);
      auto gated = matrix(count, m.intermediate);
      ops_.swiglu(product(normalized(middle, layer.norm2), layer.gate_up.plain), gated);
      x = product(gated, layer.down.plain, middle);
    }
    const auto head = model_.head_product();
    const auto logits = product(normalized(x, head.gain), head.w.plain);
    return {logits.data, logits.data + count * m.vocab};
  }

 private:
  Matrix<double> matrix(std::size_t rows, std::size_t cols) {
    memory_.emplace_back(rows * cols);
    return {memory_.back().data(), rows, cols, cols};
  }
  Matrix<double> normalized(Matrix<double> x, const double* gain) {
    auto n = matrix(x.rows, x.cols), rstd = matrix(x.rows, 1);
    ops_.norm(x, {const_cast<double*>(gain), nullptr}, model_.shape().norm_eps, n, {nullptr, rstd.data});
    return n;
  }
  Matrix<double> product(Matrix<double> x, Matrix<double> w, Matrix<double> residual = {},
                         const double* bias = nullptr) {
    auto d = matrix(x.rows, w.rows);
    ops_.gemm(
        {.d = d, .a = x, .b = w, .b_transposed = true, .beta = residual ? 1.0 : 0.0, .c = residual.data, .bias = bias});
    return d;
  }

  const Model& model_;
  host::HostOps<double> ops_;
  std::vector<std::vector<double>> memory_;
};

TEST(Decode, ComputesTheRowOfEachTokenOfAForwardPass) {
  const std::vector<std::vector<int>> sequences = {{3, 250, 77, 8, 8, 131, 0}, {9, 1, 255, 42, 17, 3, 200}};
  const DecodeSpec spec{.model = "tiny", .dtype = DType::f64, .batch = 2, .context = 7};
  host::Team team(1);
  host::DecodeOps<double> ops(team);
  training::Decoder<host::DecodeOps<double>> model(spec, ops);
  model.fill_cache(0);
  Prefill prefill(model, team);
  const std::vector<std::vector<double>> want = {prefill.logits(sequences[0]), prefill.logits(sequences[1])};
  const auto vocab = model.shape().vocab;
  for (std::size_t t = 0; t < sequences[0].size(); ++t) {
    model.poison();
    model.set_tokens({sequences[0][t], sequences[1][t]});
    model.step(t);
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t c = 0; c < vocab; ++c) {
        ASSERT_NEAR(model.logits().data[s * vocab + c], want[s][t * vocab + c], 1e-12) << "token " << t << " of " << s;
      }
    }
  }
}

TEST(Decode, HasTheKeyAndTheBytesOfTheModel) {
  const DecodeSpec whole{.model = "llama_70b", .dtype = DType::bf16, .batch = 1, .context = 4096};
  EXPECT_EQ(key(whole), "decode/model:llama_70b/dtype:bf16/batch:1/context:4096");
  // 70.55e9 parameters with the embedding, which a token does not read.
  EXPECT_NEAR(decode_weights(decode_shape(whole)) / 1e9, 70.55 - 8192 * 128256 / 1e9, 0.01);
  DecodeSpec part{.model = "llama_405b", .dtype = DType::fp8_e4m3, .batch = 16, .context = 4096, .share = 8};
  EXPECT_EQ(key(part), "decode/model:llama_405b/dtype:fp8/batch:16/context:4096/share:8");
  const double weights = (405.85e9 - 16384.0 * 128256) / 8, cache = 16 * 126 * 2.0 * 4096 * 128 * 2;
  EXPECT_NEAR(cost(part).bytes / (weights + cache), 1, 1e-3);
  EXPECT_LT(static_cast<double>(footprint(part)), 60e9) << "fits on a GPU of 80 GB";
  part.layers = 2;
  EXPECT_EQ(key(part), "decode/model:llama_405b/dtype:fp8/batch:16/context:4096/share:8/layers:2");
  part.share = 3;
  EXPECT_THROW(cost(part), std::invalid_argument);
  EXPECT_THROW(decode_shape({.model = "gpt2_124m"}), std::invalid_argument);
}

class HostDecode : public testing::TestWithParam<std::tuple<DType, int>> {};
INSTANTIATE_TEST_SUITE_P(Types, HostDecode,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::fp8_e4m3),
                                          testing::Values(1, 3)));

TEST_P(HostDecode, IsCheckedOperationByOperation) {
  const auto [dtype, batch] = GetParam();
  const auto device = open_device(Backend::host, {.threads = 2});
  Alone group;
  const auto work =
      device->prepare(DecodeSpec{.model = "tiny", .dtype = dtype, .batch = batch, .context = 9, .share = 2});
  work->connect(group);
  work->reset();
  EXPECT_FALSE(work->verify().passed()) << "nothing ran, but the check passed";
  work->stage(1);
  EXPECT_GT(device->seconds(*work, 1), 0);
  const auto good = work->verify();
  EXPECT_TRUE(good.passed()) << good.mismatched << " of " << good.compared << ": " << good.first;
  EXPECT_GT(good.compared, 500U);
  const auto digest = work->digest();
  work->stage(1);
  EXPECT_FALSE(work->verify().passed()) << "an operation that did not run was not seen";
  device->seconds(*work, 1);
  EXPECT_EQ(work->digest(), digest) << "equal inputs give equal bits";
  for (const auto& [name, value] : work->metrics()) EXPECT_GT(value, 0) << name;
  work->corrupt();
  EXPECT_NE(work->digest(), digest);
  EXPECT_EQ(work->verify().mismatched, 1U);
}

TEST(Decode, IsRefusedInTypesThatTheHostDoesNotHave) {
  const auto device = open_device(Backend::host, {});
  EXPECT_THROW(device->prepare(DecodeSpec{.model = "tiny", .dtype = DType::bf16, .context = 4}), Unsupported);
}

}  // namespace
}  // namespace shakedown::decode_test
