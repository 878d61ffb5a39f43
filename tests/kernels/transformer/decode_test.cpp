// Decode on the host: the forward pass of a whole sequence as its reference, its check, and its cost.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/group.hpp"
#include "kernels/device.hpp"
#include "kernels/transformer/decode.hpp"
#include "kernels/transformer/host/decode_ops.hpp"
#include "kernels/transformer/measured_decode.hpp"
#include "tests/kernels/transformer/ranks.hpp"

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

/// Returns the logits of a token of each sequence, computed by `ranks` ranks that share the model; one row for each.
std::vector<double> logits_of(int ranks) {
  std::vector<double> result;
  run_ranks(ranks, [&](Group& group) {
    const DecodeSpec spec{
        .model = "tiny", .dtype = DType::f64, .batch = 2, .context = 7, .tp = ranks, .rank = group.rank()};
    host::Team team(1);
    host::DecodeOps<double> ops(team);
    ops.connect(group);
    training::Decoder<host::DecodeOps<double>> model(spec, ops);
    model.fill_cache(5);
    model.poison();
    model.set_tokens({3, 250});
    model.step(5);
    if (group.rank() != ranks - 1) return;  // any rank has the logits of all
    const auto all = model.all_logits();
    for (std::size_t sequence = 0; sequence < model.batch(); ++sequence) {
      for (std::size_t r = sequence; r < all.rows; r += model.batch()) {
        result.insert(result.end(), all.data + r * all.stride, all.data + r * all.stride + all.cols);
      }
    }
  });
  return result;
}

TEST(Decode, ComputesTheSameLogitsOnOneRankAndOnRanksThatShareTheModel) {
  const auto want = logits_of(1), got = logits_of(2);
  ASSERT_EQ(want.size(), 2 * decode_shape({.model = "tiny"}).vocab);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-12) << "logit " << i;
}

TEST(Decode, IsCheckedOnRanksThatShareTheModel) {
  std::vector<std::optional<std::uint64_t>> digests(2);
  run_ranks(2, [&](Group& group) {
    const auto device = open_device(Backend::host, {.local_rank = group.rank(), .local_size = 2});
    const auto rank = static_cast<std::size_t>(group.rank());
    const auto work = device->prepare(
        DecodeSpec{.model = "tiny", .dtype = DType::f32, .batch = 3, .context = 9, .tp = 2, .rank = group.rank()});
    EXPECT_TRUE(work->collective());
    work->connect(group);
    work->reset();
    EXPECT_FALSE(work->verify().passed()) << "nothing ran, but the check passed";
    device->seconds(*work, 1);
    const auto good = work->verify();
    EXPECT_TRUE(good.passed()) << good.mismatched << " of " << good.compared << ": " << good.first;
    digests[rank] = work->digest();
    for (const auto& [name, value] : work->metrics()) EXPECT_GT(value, 0) << name;
    if (group.rank() == 0) work->corrupt();
    EXPECT_EQ(work->verify().mismatched, group.rank() == 0 ? 1U : 0U);
    EXPECT_EQ(work->digest() == digests[rank], group.rank() != 0);
  });
  EXPECT_EQ(digests[0], digests[1]) << "ranks vote on the logits of all";
}

/// Decode on the host, with faults.
class FaultyOps : public host::DecodeOps<double> {
 public:
  using DecodeOps::DecodeOps;
  static training::DecodeErrors errors() { return {1e-16, 1e-16, 1e-5, 1e-16}; }
  static std::uint64_t digest(const void* from, std::size_t bytes) {
    return digest_of({static_cast<const std::byte*>(from), bytes});
  }
  void record(std::function<void()> queue) { queue_ = std::move(queue); }
  void replay() { queue_(); }
  static double seconds(const std::function<void()>& queue) {
    queue();
    return 1;
  }
  static void read(const std::byte*, std::size_t) {}
  void add_up(Matrix<const double> own, Matrix<double> all) {
    DecodeOps::add_up(own, all);
    if (has_wrong_sum && ++sums == 3) all.data[1] *= 1 + 1e-9;
  }
  void embed(Matrix<const double> table, const int* tokens, Matrix<double> x) {
    const int other = *tokens + 1;
    DecodeOps::embed(table, has_wrong_embedding ? &other : tokens, x);
  }
  bool has_wrong_sum = false, has_wrong_embedding = false;
  int sums = 0;

 private:
  std::function<void()> queue_;
};

TEST(Decode, FindsASumThatIsWrongOnOneRank) {
  run_ranks(2, [&](Group& group) {
    const auto device = open_device(Backend::host, {.local_rank = group.rank(), .local_size = 2});
    host::Team team(1);
    auto made = std::make_unique<FaultyOps>(team);
    auto* const ops = made.get();
    training::MeasuredDecode<FaultyOps> work(
        {.model = "tiny", .dtype = DType::f64, .context = 9, .tp = 2, .rank = group.rank()}, std::move(made), *device,
        [](FaultyOps& it, Group& of) { it.connect(of); });
    work.connect(group);
    work.enqueue();
    EXPECT_TRUE(work.verify().passed());
    ops->has_wrong_sum = group.rank() == 1;
    work.enqueue();
    EXPECT_EQ(work.verify().mismatched, group.rank() == 1 ? 1U : 0U);
  });
}

TEST(Decode, FindsAnEmbeddingOfAnotherToken) {
  host::Team team(1);
  const auto device = open_device(Backend::host, {});
  auto made = std::make_unique<FaultyOps>(team);
  auto* const ops = made.get();
  Alone group;
  training::MeasuredDecode<FaultyOps> work({.model = "tiny", .dtype = DType::f64, .context = 9}, std::move(made),
                                           *device, [](FaultyOps&, Group&) {});
  work.connect(group);
  work.enqueue();
  EXPECT_TRUE(work.verify().passed());
  ops->has_wrong_embedding = true;
  work.enqueue();
  EXPECT_GE(work.verify().mismatched, decode_shape({.model = "tiny"}).hidden);
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
  DecodeSpec shared = whole;
  shared.tp = 2;
  EXPECT_EQ(key(shared), "decode/model:llama_70b/dtype:bf16/batch:1/context:4096/tp:2");
  EXPECT_NEAR(cost(shared).bytes / cost(whole).bytes, 0.5, 1e-9);
  shared.share = 2;
  EXPECT_THROW(decode_shape(shared), std::invalid_argument);
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
