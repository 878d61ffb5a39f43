// Decode on the GPU: the check of whole tokens at the sizes of real models, and a layer's forward pass of all tokens,
// by cuBLASLt and cuDNN, as the reference of the last token.
#include "kernels/transformer/decode.hpp"

#include "kernels/transformer/cuda/attention.hpp"
#include "kernels/transformer/cuda/decode_ops.hpp"
#include "kernels/transformer/cuda/products.hpp"
#include "tests/kernels/transformer/cuda/training_on_gpu.hpp"

namespace shakedown::cuda {
namespace {

constexpr auto bf16_type = DType::bf16, fp8_type = DType::fp8_e4m3;

class CudaDecode : public CudaTraining {
 protected:
  /// Computes a token twice, and checks that damage and a missing computation are detected.
  void expect_checked(const DecodeSpec& spec) {
    SCOPED_TRACE(key(spec));
    const auto work = device_->prepare(spec);
    work->connect(group_);
    work->reset();
    EXPECT_FALSE(work->verify().passed()) << "nothing ran, but the check passed";
    work->stage(1);
    device_->seconds(*work, 1);
    const auto good = work->verify();
    EXPECT_TRUE(good.passed()) << good.mismatched << " of " << good.compared << ": " << good.first;
    const auto digest = work->digest();
    work->stage(1);
    device_->seconds(*work, 1);
    EXPECT_EQ(work->digest(), digest) << "equal inputs give equal bits";
    work->corrupt();
    EXPECT_NE(work->digest(), digest);
    EXPECT_EQ(work->verify().mismatched, 1U);
  }
};

TEST_F(CudaDecode, IsCheckedOperationByOperation) {
  // Lengths with one position, a whole split, and a part of one; rows that are no whole chunks; biases.
  for (const int context : {1, 64, 65, 200}) {
    for (const int batch : {1, 3}) {
      expect_checked(
          {.model = "tiny", .dtype = bf16_type, .batch = batch, .context = context, .share = context == 65 ? 2 : 1});
    }
  }
}

TEST_F(CudaDecode, IsCheckedAtTheSizeOfRealModels) {
  expect_checked({.model = "llama_70b", .dtype = bf16_type, .batch = 1, .context = 4096, .share = 8, .layers = 2});
  expect_checked({.model = "qwen2_7b", .dtype = bf16_type, .batch = 1, .context = 1000, .layers = 1});
  expect_checked({.model = "llama_70b", .dtype = bf16_type, .batch = 16, .context = 4096, .share = 8, .layers = 1});
}

TEST_F(CudaDecode, IsCheckedWithWeightsOfFp8) {
  expect_checked({.model = "llama_405b", .dtype = fp8_type, .batch = 1, .context = 4096, .share = 8, .layers = 1});
  expect_checked({.model = "llama_70b", .dtype = fp8_type, .batch = 1, .context = 100, .layers = 1});
  expect_checked({.model = "tiny", .dtype = fp8_type, .batch = 16, .context = 65});
  expect_checked({.model = "llama_70b", .dtype = fp8_type, .batch = 64, .context = 200, .share = 8, .layers = 1});
  EXPECT_THROW(device_->prepare(DecodeSpec{.model = "tiny", .dtype = fp8_type, .batch = 2, .context = 4}), Unsupported);
}

/// The forward pass of all tokens through one layer of a decoder. It writes the keys and values of all tokens but the
/// last to the decoder's cache.
class CudaPrefill : public CudaDecode {
 protected:
  using Model = training::Decoder<DecodeOps>;

  void multiply(Matrix<Bf16> d, Matrix<const Bf16> a, Matrix<const Bf16> w, const Bf16* residual = nullptr) {
    products_->multiply(training::Gemm<Bf16, Bf16>{
        .d = d, .a = a, .b = w, .b_transposed = true, .beta = residual != nullptr ? 1.0 : 0.0, .c = residual});
  }

  void write_cache(const Model& model, const M& qkv, std::size_t count) const {
    const auto& m = model.shape();
    const auto& layer = model.layers()[0];
    for (std::size_t kv = 0; kv < m.kv_heads; ++kv) {
      const auto head = [&](Bf16* cache) {
        return Matrix<Bf16>{cache + kv * model.capacity() * m.head_dim, count, m.head_dim, m.head_dim};
      };
      const auto rows = qkv.matrix().row_range(0, count);
      copy_rows(stream(), rows.columns((m.heads + kv) * m.head_dim, m.head_dim), head(layer.keys));
      copy_rows(stream(), rows.columns((m.heads + m.kv_heads + kv) * m.head_dim, m.head_dim), head(layer.values));
    }
  }

  /// Returns the output of the layer for the last token.
  std::vector<double> last_row(const Model& model, const std::vector<int>& tokens) {
    const auto& m = model.shape();
    const auto& layer = model.layers()[0];
    const auto count = tokens.size();
    const auto eps = static_cast<float>(m.norm_eps);
    const auto on_gpu = upload(tokens), workspace = Buffer(Products::workspace_bytes);
    const auto rotations = upload(training::rotation_table<float>(count, m.head_dim, m.rope_theta));
    products_ = std::make_unique<Products>(*gpu_);
    products_->use_workspace(workspace.data());
    const auto x = bf16(count, m.hidden), n = bf16(count, m.hidden), qkv = bf16(count, m.qkv_width()),
               attended = bf16(count, m.q_width()), middle = bf16(count, m.hidden),
               gate_up = bf16(count, 2 * m.intermediate), gated = bf16(count, m.intermediate),
               out = bf16(count, m.hidden);
    const auto rstd = f32(count), lse = f32(count * m.heads);
    embed(stream(), model.embedding(), on_gpu.data<int>(), {}, count, x);
    norm(stream(), x, {layer.norm1, nullptr}, eps, n, {nullptr, rstd.data()});
    multiply(qkv, n, layer.qkv.plain);
    rope(stream(), qkv, rotations.data<float>(), {1, count, m.heads, m.kv_heads, m.head_dim},
         training::Rotation::forward);
    write_cache(model, qkv, count - 1);
    const auto attention = make_cudnn_attention({.batch = 1,
                                                 .sequence = static_cast<int>(count),
                                                 .query_heads = static_cast<int>(m.heads),
                                                 .kv_heads = static_cast<int>(m.kv_heads),
                                                 .head_size = static_cast<int>(m.head_dim),
                                                 .qkv_stride = m.qkv_width(),
                                                 .out_stride = m.q_width(),
                                                 .dout_stride = m.q_width(),
                                                 .dqkv_stride = m.qkv_width(),
                                                 .forward_only = true},
                                                false);
    const Buffer scratch(attention->workspace_bytes());
    attention->forward(stream(), qkv.data(), attended.data(), lse.data(), scratch.data());
    multiply(middle, attended, layer.o.plain, x.data());
    norm(stream(), middle, {layer.norm2, nullptr}, eps, n, {nullptr, rstd.data()});
    multiply(gate_up, n, layer.gate_up.plain);
    swiglu(stream(), gate_up, gated);
    multiply(out, gated, layer.down.plain, middle.data());
    gpu_->synchronize();
    const auto all = out.read();
    return {all.end() - static_cast<std::ptrdiff_t>(m.hidden), all.end()};
  }

  std::unique_ptr<Products> products_;
};

TEST_F(CudaPrefill, EndsWithTheRowOfTheDecodedToken) {
  const DecodeSpec spec{.model = "llama_70b", .dtype = bf16_type, .batch = 1, .context = 4096, .share = 8, .layers = 1};
  DecodeOps ops(*gpu_, spec);
  Model model(spec, ops);
  model.fill_cache(0);
  std::vector<int> tokens(model.capacity());
  for (std::size_t t = 0; t < tokens.size(); ++t) tokens[t] = static_cast<int>(reference::mix(t) % model.shape().vocab);
  std::vector<double> want;
  try {
    want = last_row(model, tokens);
  } catch (const Unsupported& reason) {
    GTEST_SKIP() << reason.what();
  }
  model.set_tokens({tokens.back()});
  model.step(tokens.size() - 1);
  ops.synchronize();
  std::vector<Bf16> raw(model.shape().hidden);
  ops.copy_out(raw.data(), model.layers()[0].out.all.data, raw.size() * sizeof(Bf16));
  std::vector<double> got(raw.size());
  std::transform(raw.begin(), raw.end(), got.begin(), DecodeOps::to_double);
  EXPECT_TRUE(close(got, want, attention_rounding));
}

}  // namespace
}  // namespace shakedown::cuda
