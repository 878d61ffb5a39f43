// Quantization on the GPU: the bits of the host from the same rows, and those of an operation that is quantized at
// once.
#include "kernels/transformer/quantize.hpp"

#include <numeric>
#include <string>
#include <utility>

#include "kernels/transformer/cuda/products.hpp"
#include "kernels/transformer/cuda/quantize.hpp"
#include "kernels/transformer/layer_spec.hpp"
#include "tests/kernels/transformer/cuda/training_on_gpu.hpp"

namespace shakedown::cuda {
namespace {

using Codes = std::vector<std::uint8_t>;

class CudaQuantization : public CudaTraining, public ::testing::WithParamInterface<Float8> {
 protected:
  using U8 = DeviceMatrix<std::uint8_t>;

  struct Result {
    Codes values, block_scales;
    std::vector<float> row_scales;

    bool operator==(const Result&) const = default;
  };

  static std::size_t block_scale_bytes(std::size_t rows, std::size_t cols) {
    return (rows + 127) / 128 * ((cols + 127) / 128) * 512;
  }

  /// Quantizes by rows, or by blocks of 32, with the given kernel. Memory after each row must not change.
  template <class Quantize>
  Result result(std::size_t rows, std::size_t cols, bool by_rows, const Quantize& run) {
    const U8 values(*gpu_, rows, cols, 16), bytes(*gpu_, 1, block_scale_bytes(rows, cols));
    const auto scales = f32(rows);
    gpu_->fill(View{scales.data(), rows * sizeof(float)}, 0);
    run(Quantized{values, by_rows ? scales.data() : nullptr, by_rows ? nullptr : bytes.data(), GetParam()});
    Result result{values.bits(), bytes.bits(), scales.bits()};
    for (std::size_t i = 0; i < result.values.size(); ++i) {
      if (i % (cols + 16) < cols) continue;
      EXPECT_EQ(result.values[i], 0xff) << "something was written after a row";
    }
    return result;
  }

  Result on_host(const std::vector<float>& x, std::size_t rows, bool by_rows) {
    const std::size_t cols = x.size() / rows, stride = cols + 16;
    Result result{Codes(rows * stride, 0xff), Codes(block_scale_bytes(rows, cols), 0xff), std::vector<float>(rows)};
    const Matrix<const float> from{x.data(), rows, cols, cols};
    const Matrix<std::uint8_t> to{result.values.data(), rows, cols, stride};
    if (by_rows) {
      training::quantize_rows(from, GetParam(), to, result.row_scales.data());
    } else {
      training::quantize_blocks(from, GetParam(), to, result.block_scales.data());
    }
    return result;
  }

  static std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

  Result plain(const M& x, std::size_t rows, std::size_t cols, bool by_rows) {
    return result(rows, cols, by_rows, [&](const Quantized& to) { quantize(stream(), x, to); });
  }
};
INSTANTIATE_TEST_SUITE_P(Types, CudaQuantization, ::testing::Values(Float8::e4m3, Float8::e5m2),
                         [](const auto& type) { return type.param == Float8::e4m3 ? "e4m3" : "e5m2"; });

TEST_P(CudaQuantization, HasTheBitsOfTheHost) {
  for (const auto& [rows, cols] : {std::pair{37U, 3584U}, {130U, 96U}, {5U, 32U}, {2U, 32768U}, {3U, 18944U}}) {
    auto x = bf16(rows, cols, 24);
    x.normal(rows, 3);
    for (const bool by_rows : {true, false}) {
      SCOPED_TRACE(std::to_string(cols) + (by_rows ? " by rows" : " by blocks"));
      EXPECT_TRUE(plain(x, rows, cols, by_rows) == on_host(floats(x.read()), rows, by_rows));
    }
  }
}

/// Every bf16: zeros of both signs, subnormal numbers, infinities and NaN among them.
TEST_P(CudaQuantization, OfEveryNumberHasTheBitsOfTheHost) {
  constexpr std::size_t rows = 256, cols = 256;
  std::vector<std::uint16_t> all(rows * cols);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  auto x = bf16(rows, cols);
  gpu_->write(x.data(), all.data(), all.size() * sizeof all[0]);
  for (const bool by_rows : {true, false}) {
    EXPECT_TRUE(plain(x, rows, cols, by_rows) == on_host(floats(x.read()), rows, by_rows)) << by_rows;
  }
}

TEST_P(CudaQuantization, TogetherWithAnActivationHasTheBitsOfBothInTurn) {
  constexpr std::size_t rows = 33, cols = 4096;
  auto u = bf16(rows, cols, 8), h = bf16(rows, cols);
  u.normal(1, 2);
  for (const bool by_rows : {true, false}) {
    gelu(stream(), u, h);
    EXPECT_TRUE(plain(h, rows, cols, by_rows) ==
                result(rows, cols, by_rows, [&](const Quantized& to) { quantize_gelu(stream(), u, to); }));
  }
}

/// The sums of a norm have another order, so its rows may differ by a rounding.
TEST_P(CudaQuantization, TogetherWithANormIsTheNorm) {
  constexpr std::size_t rows = 33, cols = 8192;
  auto x = bf16(rows, cols), gain = bf16(1, cols), shift = bf16(1, cols), n = bf16(rows, cols);
  x.normal(1, 3), gain.normal(2), shift.normal(3);
  const auto mean = f32(rows), rstd = f32(rows), mean_too = f32(rows), rstd_too = f32(rows);
  for (const bool centred : {false, true}) {
    const NormWeights weights{gain.data(), centred ? shift.data() : nullptr};
    norm(stream(), x, weights, 1e-5F, n, {centred ? mean.data() : nullptr, rstd.data()});
    const auto got = result(rows, cols, true, [&](const Quantized& to) {
      quantize_norm(stream(), x, weights, 1e-5F, {centred ? mean_too.data() : nullptr, rstd_too.data()}, to);
    });
    EXPECT_TRUE(close(rstd_too.read(), rstd.read(), f32_rounding));
    if (centred) {
      EXPECT_TRUE(close(mean_too.read(), mean.read(), f32_rounding));
    }
    const auto want = plain(n, rows, cols, true);
    std::size_t different = 0;
    for (std::size_t i = 0; i < want.values.size(); ++i) different += got.values[i] != want.values[i] ? 1 : 0;
    EXPECT_LT(different, want.values.size() / 500);
  }
}

/// e4m3 times e4m3, or e5m2 times e4m3: cuBLASLt has no product of two e5m2.
TEST_P(CudaQuantization, IsMultipliedWithTheFactorsOfItsRows) {
  constexpr std::size_t m = 48, n = 80, k = 512;
  auto x = bf16(m, k), w = bf16(n, k), residual = bf16(m, n), bias = bf16(1, n), d = bf16(m, n);
  x.normal(1, 3), w.normal(2), residual.normal(3, 5), bias.normal(4, 5);
  const U8 x_values(*gpu_, m, k), w_values(*gpu_, n, k);
  const auto x_scales = f32(m), w_scales = f32(n);
  const training::QuantizedRows a{x_values, x_scales.data(), GetParam()}, b{w_values, w_scales.data(), Float8::e4m3};
  quantize(stream(), x, {x_values, x_scales.data(), nullptr, GetParam()});
  quantize(stream(), w, {w_values, w_scales.data(), nullptr, Float8::e4m3});
  const Buffer workspace(Products::workspace_bytes);
  Products products(*gpu_);
  products.use_workspace(workspace.data());
  const auto a_codes = x_values.bits(), b_codes = w_values.bits();
  const auto a_factors = x_scales.bits(), b_factors = w_scales.bits();
  std::vector<double> product(m * n), sums = residual.read(), biases = bias.read();
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        sum += static_cast<double>(from_float8(a_codes[i * k + l], GetParam())) *
               static_cast<double>(from_float8(b_codes[j * k + l], Float8::e4m3));
      }
      product[i * n + j] = sum * static_cast<double>(a_factors[i]) * static_cast<double>(b_factors[j]);
    }
  }
  using training::Accumulation;
  for (const bool adds : {false, true}) {
    for (const bool biased : {false, true}) {
      for (const auto accumulation : {Accumulation::fast, Accumulation::exact}) {
        try {
          products.multiply(training::QuantizedGemm<Bf16>{d, a, b, adds ? residual.data() : nullptr,
                                                          biased ? bias.data() : nullptr, accumulation});
        } catch (const Unsupported& reason) {
          EXPECT_TRUE(contains(reason.what(), "48 x 80 x 512 NT bf16 fp8"));
          int major = 0;
          check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
          EXPECT_NE(major, 9) << reason.what();
          continue;
        }
        auto want = product;
        for (std::size_t at = 0; at < want.size(); ++at) {
          want[at] += (adds ? sums[at] : 0) + (biased ? biases[at % n] : 0);
        }
        EXPECT_TRUE(close(d.read(), want, rounding)) << adds << biased;
      }
    }
  }
}

/// The factor of the second row must grow, that of the third must not shrink.
TEST_P(CudaQuantization, OfChangedColumnsHasTheBitsOfTheHost) {
  constexpr std::size_t rows = 11, cols = 600, first = 512;
  auto x = bf16(rows, cols, 8);
  x.normal(1, 3);
  auto values = x.read();
  auto want = on_host(floats(values), rows, true);
  const auto got = result(rows, cols, true, [&](const Quantized& to) {
    quantize(stream(), x, to);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = first; c < cols; ++c) values[r * cols + c] *= r == 1 ? 8 : 0.5;
    }
    x.write(values);
    requantize(stream(), x, first, to);
  });
  const auto now = floats(values);
  training::requantize_rows(Matrix<const float>{now.data(), rows, cols, cols}, first, GetParam(),
                            {want.values.data(), rows, cols, cols + 16}, want.row_scales.data());
  EXPECT_TRUE(got == want);
}

/// The factors of three columns must grow later.
TEST_P(CudaQuantization, OfColumnsHasTheBitsOfTheHost) {
  constexpr std::size_t rows = 333, cols = 136, first = 300;
  auto x = bf16(rows, cols, 8);
  x.normal(1, 3);
  auto values = x.read();
  Result want{Codes(cols * (rows + 16), 0xff), Codes(block_scale_bytes(cols, rows), 0xff), std::vector<float>(cols)};
  const Matrix<std::uint8_t> to{want.values.data(), cols, rows, rows + 16};
  const auto host_matrix = [](const std::vector<float>& of) {
    return Matrix<const float>{of.data(), rows, cols, cols};
  };
  const auto before = floats(values);
  training::requantize_transposed(host_matrix(before), first, GetParam(), to, want.row_scales.data());
  const auto quantize_before = [&](const Quantized& to_device) {
    requantize_transposed(stream(), x, first, to_device);
  };
  EXPECT_TRUE(result(cols, rows, true, quantize_before) == want);
  for (std::size_t r = first; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) values[r * cols + c] *= c == 5 || c == 8 || c == 135 ? 8 : 0.5;
  }
  const auto now = floats(values);
  training::requantize_transposed(host_matrix(now), first, GetParam(), to, want.row_scales.data());
  const auto got = result(cols, rows, true, [&](const Quantized& to_device) {
    quantize_before(to_device);
    x.write(values);
    requantize_transposed(stream(), x, first, to_device);
  });
  EXPECT_TRUE(got == want);
}

/// Among the heights are fewer rows than a block reads at a time, and more; among the widths, parts of a strip.
TEST_P(CudaQuantization, OfWholeColumnsHasTheBitsOfTheHost) {
  for (const auto& [rows, cols] : {std::pair{264U, 136U}, {8U, 8U}, {256U, 32U}, {1000U, 72U}, {4096U, 264U}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
    auto x = bf16(rows, cols, 8);
    x.normal(rows, 3);
    auto values = x.read();
    for (std::size_t r = 0; r < rows; ++r) values[r * cols + 1] = 0;
    values[2] = HUGE_VAL, values[3] = nan, values[cols + 4] = -HUGE_VAL;
    x.write(values);
    const auto from = floats(x.read());
    Result want{Codes(cols * (rows + 16), 0xff), Codes(block_scale_bytes(cols, rows), 0xff), std::vector<float>(cols)};
    training::quantize_transposed(Matrix<const float>{from.data(), rows, cols, cols}, GetParam(),
                                  {want.values.data(), cols, rows, rows + 16}, want.row_scales.data());
    EXPECT_TRUE(result(cols, rows, true, [&](const Quantized& to) { quantize_transposed(stream(), x, to); }) == want);
  }
}

/// The gradient of weights: the columns of two matrices, and a sum in f32 that adds to the previous one.
TEST_F(CudaTraining, AProductOfColumnsIsThatOfTheirQuantizedValues) {
  constexpr std::size_t tokens = 512, outputs = 48, inputs = 80;
  auto dy = bf16(tokens, outputs), x = bf16(tokens, inputs);
  dy.normal(1), x.normal(2);
  const DeviceMatrix<std::uint8_t> dy_values(*gpu_, outputs, tokens), x_values(*gpu_, inputs, tokens);
  const auto dy_scales = f32(outputs), x_scales = f32(inputs);
  quantize_transposed(stream(), dy, {dy_values, dy_scales.data()});
  quantize_transposed(stream(), x, {x_values, x_scales.data()});
  auto d = f32(outputs, inputs);
  const Buffer workspace(Products::workspace_bytes);
  Products products(*gpu_);
  products.use_workspace(workspace.data());
  const auto left = dy_values.bits(), right = x_values.bits();
  const auto left_factors = dy_scales.bits(), right_factors = x_scales.bits();
  std::vector<double> want(outputs * inputs);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto r = i / inputs, c = i % inputs;
    for (std::size_t t = 0; t < tokens; ++t) {
      want[i] += static_cast<double>(from_float8(left[r * tokens + t], Float8::e4m3)) *
                 static_cast<double>(from_float8(right[c * tokens + t], Float8::e4m3));
    }
    want[i] *= static_cast<double>(left_factors[r]) * static_cast<double>(right_factors[c]);
  }
  for (const bool adds : {false, true}) {
    try {
      products.multiply(training::QuantizedGemm<Bf16, float>{.d = d,
                                                             .a = {dy_values, dy_scales.data()},
                                                             .b = {x_values, x_scales.data()},
                                                             .c = adds ? d.data() : nullptr,
                                                             .accumulation = training::Accumulation::exact});
    } catch (const Unsupported& reason) {
      int major = 0;
      check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
      EXPECT_NE(major, 9) << reason.what();
      return;
    }
    if (adds) {
      for (double& value : want) value *= 2;
    }
    // The tensor core's own sums have fewer bits than f32.
    EXPECT_TRUE(close(d.read(), want, 1e-3)) << adds;
  }
}

/// A smaller layer with the head size of the benchmark.
TEST_F(CudaTraining, ALayerIsCheckedTokenByToken) {
  for (const auto dtype : {DType::bf16, DType::fp8_e4m3}) {
    try {
      expect_work_is_checked(
          LayerSpec{.model = "h512", .dtype = dtype, .batch = 2, .seq = 256, .causal = dtype == DType::bf16},
          4 * 512 * 10);
    } catch (const Unsupported& reason) {
      EXPECT_TRUE(contains(reason.what(), "compute capability") || contains(reason.what(), "GB free") ||
                  contains(reason.what(), "cuDNN"));
    }
  }
}

TEST_P(CudaQuantization, RefusesColumnsThatDoNotFit) {
  for (const auto& [rows, cols] : {std::pair{12U, 32U}, {32U, 12U}}) {
    const auto text = message_of([&] {
      quantize_transposed(stream(), {nullptr, rows, cols, cols},
                          {{nullptr, cols, rows, rows}, reinterpret_cast<float*>(16), nullptr, GetParam()});
    });
    EXPECT_TRUE(contains(text, "divisible by 8"));
  }
}

TEST_P(CudaQuantization, RefusesRowsThatDoNotFit) {
  for (const auto& [cols, by_rows] : {std::pair{65544U, true}, {12U, true}, {40U, false}}) {
    const auto text = message_of([&] {
      quantize(stream(), {nullptr, 1, cols, cols},
               {{nullptr, 1, cols, cols}, by_rows ? reinterpret_cast<float*>(16) : nullptr, nullptr, GetParam()});
    });
    EXPECT_TRUE(contains(text, "rows of " + std::to_string(cols) + " columns cannot be quantized"));
  }
}

}  // namespace
}  // namespace shakedown::cuda
