// Attention on the GPU against the formula in f64: our kernels and those of cuDNN.
#include "kernels/transformer/cuda/attention.hpp"
#include "kernels/transformer/cuda/kernels.hpp"
#include "tests/kernels/transformer/cuda/training_on_gpu.hpp"

namespace shakedown::cuda {
namespace {

/// The results of the formulas in f64, in the layout of AttentionShape without padding.
struct Reference {
  std::vector<double> out, lse, dqkv;
};

Reference attention_of(const AttentionShape& s, const std::vector<double>& qkv, const std::vector<double>& dout) {
  const auto size = static_cast<std::size_t>(s.head_size), heads = static_cast<std::size_t>(s.query_heads);
  const auto kv_heads = static_cast<std::size_t>(s.kv_heads), seq = static_cast<std::size_t>(s.sequence);
  const auto batch = static_cast<std::size_t>(s.batch), cols = (heads + 2 * kv_heads) * size;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  Reference result{std::vector<double>(batch * seq * heads * size), std::vector<double>(batch * heads * seq),
                   std::vector<double>(batch * seq * cols)};
  const auto dot = [&](const double* x, const double* y) {
    double sum = 0;
    for (std::size_t c = 0; c < size; ++c) sum += x[c] * y[c];
    return sum;
  };
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t h = 0; h < heads; ++h) {
      const auto k_at = (heads + h * kv_heads / heads) * size, v_at = k_at + kv_heads * size;
      for (std::size_t t = 0; t < seq; ++t) {
        const auto row = (b * seq + t) * cols, o_at = (b * seq + t) * heads * size + h * size;
        const auto visible = s.causal ? t + 1 : seq;
        std::vector<double> p(visible);
        double max = -HUGE_VAL, sum = 0;
        for (std::size_t j = 0; j < visible; ++j) {
          p[j] = scale * dot(&qkv[row + h * size], &qkv[(b * seq + j) * cols + k_at]);
          max = std::max(max, p[j]);
        }
        for (double& value : p) sum += value = std::exp(value - max);
        result.lse[(b * heads + h) * seq + t] = max + std::log(sum);
        double delta = 0;
        for (std::size_t j = 0; j < visible; ++j) {
          p[j] /= sum;
          const double* const v = &qkv[(b * seq + j) * cols + v_at];
          for (std::size_t c = 0; c < size; ++c) result.out[o_at + c] += p[j] * v[c];
          delta += p[j] * dot(&dout[o_at], v);
        }
        for (std::size_t j = 0; j < visible; ++j) {
          const auto other = (b * seq + j) * cols;
          const double ds = scale * p[j] * (dot(&dout[o_at], &qkv[other + v_at]) - delta);
          for (std::size_t c = 0; c < size; ++c) {
            result.dqkv[row + h * size + c] += ds * qkv[other + k_at + c];
            result.dqkv[other + k_at + c] += ds * qkv[row + h * size + c];
            result.dqkv[other + v_at + c] += p[j] * dout[o_at + c];
          }
        }
      }
    }
  }
  return result;
}

AttentionShape shape_of(int batch, int sequence, int heads, int kv_heads, int size, bool causal = true) {
  const auto q = static_cast<std::size_t>(heads * size), cols = static_cast<std::size_t>((heads + 2 * kv_heads) * size);
  return {batch, sequence, heads, kv_heads, size, cols, q + 64, q, cols + 192, causal};
}

class CudaAttention : public CudaTraining {
 protected:
  struct Run {
    M qkv, out, dout, dqkv;
    F lse;
  };
  Run run(const AttentionShape& s, const Attention& attention) const {
    const auto rows = static_cast<std::size_t>(s.batch * s.sequence);
    const auto q = static_cast<std::size_t>(s.query_heads * s.head_size);
    Run r{bf16(rows, s.qkv_stride), bf16(rows, q, s.out_stride - q), bf16(rows, q, s.dout_stride - q),
          bf16(rows, s.qkv_stride, s.dqkv_stride - s.qkv_stride),
          f32(static_cast<std::size_t>(s.batch * s.query_heads * s.sequence))};
    fill_normal(stream(), r.qkv.matrix(), 1, 1);
    fill_normal(stream(), r.dout.matrix(), 1, 2);
    const Buffer workspace(std::max<std::size_t>(attention.workspace_bytes(), 16));
    gpu_->fill(workspace, 0xff);
    attention.forward(stream(), r.qkv.data(), r.out.data(), r.lse.data(), workspace.data());
    gpu_->fill(workspace, 0xff);
    attention.backward(stream(), r.qkv.data(), r.out.data(), r.lse.data(), r.dout.data(), r.dqkv.data(),
                       workspace.data());
    gpu_->synchronize();
    return r;
  }

  void expect_right(const AttentionShape& s, const Attention& attention) const {
    SCOPED_TRACE(attention.name() + ", " + std::to_string(s.sequence) + " of " + std::to_string(s.query_heads) + "/" +
                 std::to_string(s.kv_heads) + " x " + std::to_string(s.head_size));
    const auto got = run(s, attention);
    const auto want = attention_of(s, got.qkv.read(), got.dout.read());
    EXPECT_TRUE(close(got.out.read(), want.out, attention_rounding));
    EXPECT_TRUE(close(got.lse.read(), want.lse, 1e-4));
    EXPECT_TRUE(close(got.dqkv.read(), want.dqkv, attention_rounding));
  }
};

TEST_F(CudaAttention, PlainIsTheFormula) {
  for (const auto& s :
       {shape_of(2, 77, 4, 2, 16), shape_of(1, 130, 6, 1, 128), shape_of(2, 64, 3, 3, 64), shape_of(1, 1, 2, 1, 32),
        shape_of(2, 77, 4, 2, 16, false), shape_of(1, 130, 6, 1, 128, false), shape_of(2, 64, 3, 3, 64, false)}) {
    expect_right(s, *make_plain_attention(s));
  }
}

TEST_F(CudaAttention, PlainRefusesHeadsThatItsTilesDoNotHold) {
  EXPECT_TRUE(contains(message_of([] { make_plain_attention(shape_of(1, 8, 2, 1, 256)); }), "at most 128"));
  EXPECT_TRUE(contains(message_of([] { make_plain_attention(shape_of(1, 8, 3, 2, 64)); }), "whole groups"));
}

class CudnnAttention : public CudaAttention {
 protected:
  std::unique_ptr<Attention> make(const AttentionShape& s, bool deterministic) const {
    try {
      return make_cudnn_attention(s, deterministic);
    } catch (const Unsupported& e) {
      reason_ = e.what();
      return nullptr;
    }
  }
  mutable std::string reason_;
};

TEST_F(CudnnAttention, IsTheFormula) {
  for (const bool deterministic : {true, false}) {
    for (const auto& s : {shape_of(2, 128, 4, 2, 64), shape_of(1, 192, 7, 1, 128), shape_of(2, 96, 3, 3, 16),
                          shape_of(2, 128, 4, 4, 64, false), shape_of(1, 192, 7, 1, 128, false)}) {
      const auto attention = make(s, deterministic);
      if (attention == nullptr) GTEST_SKIP() << reason_;
      expect_right(s, *attention);
    }
  }
}

TEST_F(CudnnAttention, IsThePlainOneAtFullSizeAndGivesTheSameBitsTwice) {
  const auto s = shape_of(2, 4096, 28, 4, 128);
  const auto attention = make(s, true);
  if (attention == nullptr) GTEST_SKIP() << reason_;
  const auto got = run(s, *attention), again = run(s, *attention), plain = run(s, *make_plain_attention(s));
  EXPECT_TRUE(close(got.out.read(), plain.out.read(), attention_rounding));
  EXPECT_TRUE(close(got.lse.read(), plain.lse.read(), 1e-4));
  EXPECT_TRUE(close(got.dqkv.read(), plain.dqkv.read(), attention_rounding));
  EXPECT_TRUE(same_bits(got.out.bits(), again.out.bits()));
  EXPECT_TRUE(same_bits(got.dqkv.bits(), again.dqkv.bits()));
}

}  // namespace
}  // namespace shakedown::cuda
