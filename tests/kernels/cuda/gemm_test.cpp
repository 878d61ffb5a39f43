// Products on one GPU: their data, their checks against products computed on the CPU, and every type through the Device
// interface.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/gemm_check.hpp"
#include "kernels/cuda/gemm_plan.hpp"
#include "kernels/cuda/gemm_type.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/gemm_scales.hpp"
#include "kernels/reference.hpp"
#include "tests/kernels/cuda/on_gpu.hpp"

namespace shakedown::cuda {
namespace {

constexpr DType all_types[] = {DType::f64,      DType::f32,  DType::tf32,  DType::f16,  DType::bf16,
                               DType::fp8_e4m3, DType::int8, DType::nvfp4, DType::mxfp8};

std::string type_name(const ::testing::TestParamInfo<DType>& info) { return std::string(name(info.param)); }

// Without a GPU ------------------------------------------------------------------------------------------------------

TEST(CudaGemmCheck, SampledRowsAreDifferentAndInside) {
  for (const int m : {1, 2, 7, 8, 9, 100, 16384}) {
    const auto rows = sample_rows(m);
    ASSERT_EQ(rows.count, std::min(m, 8));
    for (int r = 0; r < rows.count; ++r) {
      EXPECT_LT(rows.index[r], m);
      EXPECT_GT(rows.index[r], r == 0 ? -1 : rows.index[r - 1]);
    }
  }
}

TEST(CudaGemmType, OnlyFp8HasTwoWaysToAccumulate) {
  GemmSpec spec{DType::fp8_e4m3, 16, 16, 16};
  const double fast = gemm_type(spec).u_acc;
  spec.accumulate = Accumulate::exact;
  EXPECT_LT(gemm_type(spec).u_acc, fast);
  spec.dtype = DType::bf16;
  EXPECT_TRUE(contains(message_of([&] { gemm_type(spec); }), "accumulate:exact is for fp8_e4m3"));
}

TEST(CudaGemmType, OnlyFp8HasScaleFactorsOfRows) {
  GemmSpec spec{DType::fp8_e4m3, 16, 16, 16};
  spec.scaling = Scaling::row;
  EXPECT_EQ(GemmPlan::scale_bytes(spec, gemm_type(spec)), 4U * (64 + 16));
  spec.dtype = DType::bf16;
  EXPECT_TRUE(contains(message_of([&] { gemm_type(spec); }), "not for bf16"));
}

TEST(CudaGemmType, AProductOfIntegersIsExact) {
  const auto type = gemm_type({DType::int8, 16, 16, 16});
  EXPECT_EQ(type.u_out, 0);
  EXPECT_EQ(type.u_acc, 0);
}

TEST(CudaGemmType, ALongSumOfTensorCoresMayDriftAndAPlainOneMayNot) {
  const auto tf32 = gemm_type({DType::tf32, 16, 16, 16}), f32 = gemm_type({DType::f32, 16, 16, 16});
  EXPECT_GT(u_out_of(tf32, 28672), 100 * u_out_of(tf32, 16));
  EXPECT_LT(u_out_of(tf32, 28672), 0x1p-11);  // less than the rounding of an input
  EXPECT_EQ(u_out_of(f32, 28672), f32.u_out);
}

// Data ---------------------------------------------------------------------------------------------------------------

template <class T>
T read_as(const std::vector<std::byte>& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// Returns element i of an input of this type.
double decode(DType dtype, const std::vector<std::byte>& bytes, std::size_t i) {
  constexpr double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  switch (dtype) {
    case DType::f64: return read_as<double>(bytes, i);
    case DType::f32:
    case DType::tf32: return read_as<float>(bytes, i);
    case DType::f16: return __half2float(read_as<__half>(bytes, i));
    case DType::bf16: return __bfloat162float(read_as<__nv_bfloat16>(bytes, i));
    case DType::fp8_e4m3:
    case DType::mxfp8: return static_cast<float>(read_as<__nv_fp8_e4m3>(bytes, i));
    case DType::int8: return read_as<std::int8_t>(bytes, i);
    case DType::nvfp4: {
      const auto code = std::to_integer<unsigned>(bytes[i / 2]) >> (i % 2 * 4) & 15U;
      return (code & 8U) != 0 ? -e2m1[code & 7U] : e2m1[code];
    }
  }
  return std::nan("");
}

template <class T>
void write_as(std::vector<std::byte>& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

/// Rounds a value to an element of a product of this type.
void encode_product(DType dtype, std::vector<std::byte>& bytes, std::size_t i, double value) {
  switch (dtype) {
    case DType::f64: return write_as(bytes, i, value);
    case DType::f32:
    case DType::tf32: return write_as(bytes, i, static_cast<float>(value));
    case DType::f16: return write_as(bytes, i, __double2half(value));
    case DType::int8: return write_as(bytes, i, static_cast<std::int32_t>(value));
    default: return write_as(bytes, i, __double2bfloat16(value));
  }
}

class TypedData : public OnGpu, public ::testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, TypedData, ::testing::ValuesIn(all_types), type_name);

TEST_P(TypedData, NormalIsThatOfTheReferenceRounded) {
  const DType dtype = GetParam();
  const std::size_t count = 100003;
  const Buffer buffer(bytes_of(dtype, count));
  fill_normal(*gpu_, buffer, dtype, count, 2);
  const auto bytes = download<std::byte>(buffer);
  const double deviation = dtype == DType::int8 ? int8_deviation : 1;
  // Limits for rounding to nearest: relative, and absolute for small values. The functions of CPU and GPU may differ in
  // the last bits of a double, and so occasionally in one rounding.
  const auto [relative, absolute] = [&]() -> std::pair<double, double> {
    switch (dtype) {
      case DType::f64: return {1e-14, 1e-14};
      case DType::f32: return {0x1p-24 * 1.001, 1e-12};
      case DType::tf32: return {0x1p-11 * 1.001, 1e-12};
      case DType::f16: return {0x1p-11 * 1.001, 0x1p-24};
      case DType::bf16: return {0x1p-8 * 1.001, 1e-12};
      case DType::fp8_e4m3:
      case DType::mxfp8: return {0x1p-4 * 1.001, 0x1p-10 * 1.001};
      case DType::int8: return {0, 0.5000001};
      case DType::nvfp4: return {0.25 * 1.001, 0.25 * 1.001};
    }
    return {0, 0};
  }();
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double want = deviation * reference::normal(i, 2), got = decode(dtype, bytes, i);
    if (dtype == DType::int8 && std::abs(want) > 127) {
      ASSERT_EQ(got, want > 0 ? 127 : -127) << i;
    } else {
      ASSERT_NEAR(got, want, std::max(relative * std::abs(want), absolute)) << i;
    }
    if (dtype == DType::tf32) {
      ASSERT_EQ(std::bit_cast<unsigned>(static_cast<float>(got)) & 0x1fffU, 0U) << i;
    }
    sum += got / deviation;
    squares += got / deviation * (got / deviation);
  }
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.05);
}

TEST_F(OnGpu, ScaleFactorsAreWhereCublasLtReadsThem) {
  const std::size_t rows = 200, tile_bytes = 512;
  const reference::BlockScales scales{9};  // two tiles of rows, three of blocks
  const Buffer buffer(2 * 3 * tile_bytes);
  fill_scales(*gpu_, buffer, rows, scales, 0x38, 8);
  const auto bytes = download<unsigned char>(buffer);
  std::vector<unsigned char> want(buffer.bytes(), 0x38);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t b = 0; b < scales.blocks; ++b) {
      if (scales.factor(r, b) == 2) want[scales.place(r, b)] = 0x40;
    }
  }
  EXPECT_EQ(bytes, want);
}

TEST_F(OnGpu, ScaleFactorsOfRowsAndBlocksAreWhereCublasLtReadsThem) {
  for (const auto scaling : {Scaling::row, Scaling::block128}) {
    GemmSpec spec{DType::fp8_e4m3, 200, 260, 700};
    spec.scaling = scaling;
    const auto scales = gemm_scales(spec);
    const Buffer buffer(scales.count * sizeof(float));
    const View all = buffer;
    const auto begin = scales.b_begin * sizeof(float);
    fill_scales(*gpu_, all.part(0, begin), scales.a, 200, 700);
    fill_scales(*gpu_, all.part(begin, all.bytes() - begin), scales.b, 260, 700);
    std::vector<float> want(scales.count);
    for (std::size_t l = 0; l < 700; ++l) {
      for (std::size_t i = 0; i < 200; ++i) want[scales.a.place(i, l)] = scales.a.at(i, l);
      for (std::size_t j = 0; j < 260; ++j) want[scales.b_begin + scales.b.place(j, l)] = scales.b.at(j, l);
    }
    EXPECT_EQ(download<float>(buffer), want);
  }
}

// The checks of a product --------------------------------------------------------------------------------------------

/// A small product whose C is computed on the CPU in f64 and rounded once.
class ProductCheck : public OnGpu {
 protected:
  static constexpr int m = 70, n = 77, k = 53;

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<float>(reference::normal(i, 1));
    for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = static_cast<float>(reference::normal(i, 2));
  }

  void multiply(bool a_by_rows) {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int l = 0; l < k; ++l) sum += double{a_[at(a_by_rows ? i * k + l : i + l * m)]} * b_[at(l + j * k)];
        c_[at(i + j * m)] = static_cast<float>(sum);
      }
    }
  }

  Tally sampled(bool a_by_rows, unsigned long long report = no_index) {
    return run(a_by_rows, [&](const Product& product, double* scratch) {
      count_wrong_elements(gpu_->stream(), product, sample_rows(m), scratch, gpu_->start_tally(), report);
    });
  }
  Tally signed_sums(bool a_by_rows, unsigned long long report = no_index) {
    return run(a_by_rows, [&](const Product& product, double* scratch) {
      count_wrong_sums_of(gpu_->stream(), product, scratch, gpu_->start_tally(), report);
    });
  }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  std::vector<float> a_ = std::vector<float>(m * k), b_ = std::vector<float>(k * n), c_ = std::vector<float>(m * n);

 private:
  template <class Count>
  Tally run(bool a_by_rows, const Count& count) {
    const auto a = upload(a_), b = upload(b_), c = upload(c_);
    const Buffer scratch(check_scratch(n, k) * sizeof(double));
    count({DType::f32, a_by_rows, a.data(), b.data(), c.data(), m, n, k, 0x1p-24, 0x1p-24}, scratch.data<double>());
    return gpu_->finish_tally();
  }
};

TEST_F(ProductCheck, ARightProductPasses) {
  for (const bool a_by_rows : {false, true}) {
    multiply(a_by_rows);
    const auto elements = sampled(a_by_rows);
    EXPECT_EQ(elements.compared, 8U * n);
    EXPECT_EQ(elements.mismatched, 0U) << elements.first;
    const auto sums = signed_sums(a_by_rows);
    EXPECT_EQ(sums.compared, static_cast<unsigned>(m * sums_per_row(n)));
    EXPECT_EQ(sums.mismatched, 0U) << sums.first;
  }
}

TEST_F(ProductCheck, OneWrongElementIsFoundWhereItIs) {
  const int row = sample_rows(m).index[3], column = 40;
  for (const bool a_by_rows : {false, true}) {
    for (const float damage : {0.01F, -1e30F, std::nanf(""), HUGE_VALF}) {
      multiply(a_by_rows);
      const float right = c_[at(row + column * m)];
      c_[at(row + column * m)] += damage;
      const auto element_index = static_cast<unsigned long long>(row * n + column);
      const auto elements = sampled(a_by_rows, element_index);
      EXPECT_EQ(elements.mismatched, 1U) << damage;
      EXPECT_EQ(elements.first, element_index);
      EXPECT_NEAR(elements.want, right, 1e-5);
      const auto sums = signed_sums(a_by_rows);
      EXPECT_EQ(sums.mismatched, 1U) << damage;
      EXPECT_EQ(sums.first, static_cast<unsigned long long>(row * sums_per_row(n) + column / sum_width));
    }
  }
}

TEST_F(ProductCheck, AnElementOutsideTheSampleIsFoundByItsSum) {
  const auto rows = sample_rows(m);
  int row = 0;
  while (std::find(rows.index, rows.index + rows.count, row) != rows.index + rows.count) ++row;
  multiply(true);
  c_[at(row + (n - 1) * m)] *= -1;
  EXPECT_EQ(sampled(true).mismatched, 0U);
  EXPECT_EQ(signed_sums(true).mismatched, 1U);
}

TEST_F(ProductCheck, OnePercentOfOneElementIsFoundInF32) {
  const double deviation = std::sqrt(k), least = least_error_found(0x1p-24, 0x1p-24, k) * deviation;
  EXPECT_LT(least, 0.01 * deviation / 10) << "of all but elements that are themselves a tenth of their deviation";
  multiply(true);
  int tried = 0;
  for (int column = 0; column < n; column += 7) {
    const int row = (13 * column) % m;
    auto& element = c_[at(row + column * m)];
    if (0.01 * std::abs(element) < 2 * least) continue;
    const auto right = std::exchange(element, 1.01F * element);
    EXPECT_EQ(signed_sums(true).mismatched, 1U) << right;
    element = right;
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

TEST(LeastErrorFound, IsAsTheDocumentsSayForEachType) {
  const auto of = [](DType dtype, int k, Accumulate accumulate = Accumulate::fast) {
    const auto type = gemm_type(GemmSpec{dtype, k, k, k, accumulate});
    return least_error_found(u_out_of(type, k), type.u_acc, k);
  };
  EXPECT_NEAR(of(DType::fp8_e4m3, 8192), 1.18, 0.01);
  EXPECT_NEAR(of(DType::fp8_e4m3, 8192, Accumulate::exact), 0.24, 0.01);
  EXPECT_NEAR(of(DType::bf16, 8192), 0.18, 0.01);
  EXPECT_NEAR(of(DType::f16, 8192), 0.026, 0.001);
  EXPECT_NEAR(of(DType::tf32, 8192), 0.0037, 0.0002);
  EXPECT_NEAR(of(DType::f32, 8192), 0.00025, 0.00001);
  EXPECT_EQ(of(DType::int8, 8192), 0) << "exact";
}

TEST_F(ProductCheck, SwappedColumnsAreFound) {
  multiply(true);
  for (int i = 0; i < m; ++i) std::swap(c_[at(i + 3 * m)], c_[at(i + 4 * m)]);
  EXPECT_EQ(sampled(true).mismatched, 16U);
}

/// The same for every type: inputs written by the GPU, and a product computed on the CPU and rounded once.
class TypedProductCheck : public OnGpu, public ::testing::WithParamInterface<DType> {
 protected:
  static constexpr int m = 64, n = 72, k = 48;

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    const auto write = [&](const Buffer& buffer, int count, std::uint64_t stream_id) {
      fill_normal(*gpu_, buffer, GetParam(), static_cast<std::size_t>(count), stream_id);
      return download<std::byte>(buffer);
    };
    a_ = Buffer(bytes_of(GetParam(), m * k));
    b_ = Buffer(bytes_of(GetParam(), k * n));
    c_.resize(static_cast<std::size_t>(m * n) * product_size_of(GetParam()));
    const auto a = write(a_, m * k, 1), b = write(b_, k * n, 2);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t l = 0; l < k; ++l) {
          sum += decode(GetParam(), a, i * k + l) * scale(i, l) * decode(GetParam(), b, l + j * k) * scale(j, l);
        }
        exact_[i + j * m] = sum;
        encode_product(GetParam(), c_, i + j * m, sum);
      }
    }
  }

  /// Returns the scale factor of element l of a row of A or column of B.
  static double scale(std::size_t row, std::size_t l) {
    const auto block = GetParam() == DType::nvfp4 ? 16U : GetParam() == DType::mxfp8 ? 32U : 0U;
    return block == 0 ? 1 : reference::BlockScales::factor(row, l / block);
  }

  Product product(const Buffer& c) const {
    const auto type = gemm_type({GetParam(), m, n, k});
    return {GetParam(), true, a_.data(), b_.data(), c.data(), m, n, k, type.u_out, type.u_acc};
  }
  Tally elements() const {
    const auto c = upload(c_);
    const Buffer scratch(check_scratch(n, k) * sizeof(double));
    count_wrong_elements(gpu_->stream(), product(c), sample_rows(m), scratch.data<double>(), gpu_->start_tally());
    return gpu_->finish_tally();
  }
  Tally sums() const {
    const auto c = upload(c_);
    const Buffer scratch(check_scratch(n, k) * sizeof(double));
    count_wrong_sums_of(gpu_->stream(), product(c), scratch.data<double>(), gpu_->start_tally());
    return gpu_->finish_tally();
  }

  Buffer a_, b_;
  std::vector<std::byte> c_;
  std::vector<double> exact_ = std::vector<double>(m * n);
};
INSTANTIATE_TEST_SUITE_P(Types, TypedProductCheck, ::testing::ValuesIn(all_types), type_name);

TEST_P(TypedProductCheck, ARightProductPasses) {
  for (const auto& tally : {elements(), sums()}) {
    EXPECT_GT(tally.compared, 0U);
    EXPECT_EQ(tally.mismatched, 0U) << tally.first;
    EXPECT_LE(std::bit_cast<float>(tally.worst), 1.0F);
  }
}

/// The check of fp8 uses the factors of each row: a product in which two rows of factors are swapped is wrong.
TEST_F(OnGpu, AProductWithSwappedScaleFactorsIsWrong) {
  constexpr int m = 64, n = 72, k = 256;
  for (const auto scaling : {Scaling::row, Scaling::block128}) {
    GemmSpec spec{DType::fp8_e4m3, m, n, k};
    spec.scaling = scaling;
    const auto scales = gemm_scales(spec);
    const Buffer a(m * k), b(k * n);
    fill_normal(*gpu_, a, spec.dtype, m * k, 1);
    fill_normal(*gpu_, b, spec.dtype, k * n, 2);
    const auto a_bytes = download<std::byte>(a), b_bytes = download<std::byte>(b);
    const auto mismatches = [&](bool swapped) {
      std::vector<std::byte> product(static_cast<std::size_t>(m * n) * 2);
      for (std::size_t i = 0; i < m; ++i) {
        const auto row = swapped && (i == 3 || i == 4) ? 7 - i : i;
        for (std::size_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::size_t l = 0; l < k; ++l) {
            const double x = decode(spec.dtype, a_bytes, i * k + l), y = decode(spec.dtype, b_bytes, l + j * k);
            sum += x * y * static_cast<double>(scales.a.at(row, l)) * static_cast<double>(scales.b.at(j, l));
          }
          encode_product(spec.dtype, product, i + j * m, sum);
        }
      }
      const auto c = upload(product);
      const Buffer scratch(check_scratch(n, k) * sizeof(double));
      const auto type = gemm_type(spec);
      const Product checked{spec.dtype, true, a.data(),   b.data(),   c.data(), m,
                            n,          k,    type.u_out, type.u_acc, scales.a, scales.b};
      count_wrong_sums_of(gpu_->stream(), checked, scratch.data<double>(), gpu_->start_tally());
      return gpu_->finish_tally().mismatched;
    };
    EXPECT_EQ(mismatches(false), 0U);
    EXPECT_GT(mismatches(true), 0U);
  }
}

TEST_P(TypedProductCheck, OneElementThatIsOffIsFound) {
  const double off = [] {
    switch (GetParam()) {
      case DType::f64: return 1e-9;
      case DType::f32: return 1e-3;
      case DType::tf32: return 1e-2;
      case DType::int8:
      case DType::f16: return 1.0;  // int8: the smallest possible error
      default: return 8.0;
    }
  }();
  const auto row = static_cast<std::size_t>(sample_rows(m).index[5]);
  const std::size_t column = 33, place = row + column * m;
  encode_product(GetParam(), c_, place, exact_[place] + off);
  EXPECT_EQ(elements().mismatched, 1U);
  EXPECT_EQ(elements().first, row * n + column);
  EXPECT_EQ(sums().mismatched, 1U);
  EXPECT_EQ(sums().first, row * static_cast<std::size_t>(sums_per_row(n)) + column / sum_width);
}

// Works through the Device interface ---------------------------------------------------------------------------------

/// Runs the products that this GPU supports; for others the error must give the reason.
class GemmWork : public OnGpu {
 protected:
  /// cuBLASLt has the scale factors of rows and of blocks of 128 for Hopper alone.
  static bool is_hopper() {
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    return major == 9;
  }

  void expect_checked_or_unsupported(const GemmSpec& spec) {
    const auto sums = static_cast<std::size_t>(spec.m) * static_cast<std::size_t>(sums_per_row(spec.n));
    const auto rows = static_cast<std::size_t>(std::min(spec.m, SampledRows::max_rows));
    try {
      expect_work_is_checked(spec, sums + rows * static_cast<std::size_t>(spec.n));
    } catch (const Unsupported& reason) {
      EXPECT_TRUE(contains(reason.what(), "compute capability") || contains(reason.what(), "needs cuBLASLt of CUDA") ||
                  (spec.scaling != Scaling::tensor && !is_hopper()));
      RecordProperty(std::string(name(spec.dtype)), reason.what());
    }
  }
};
class TypedGemm : public GemmWork, public ::testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, TypedGemm, ::testing::ValuesIn(all_types), type_name);

TEST_P(TypedGemm, IsRight) {
  for (const auto& [m, n, k] : {std::tuple{256, 256, 256}, {256, 128, 4096}, {2048, 2048, 2048}}) {
    expect_checked_or_unsupported({GetParam(), m, n, k});
  }
}

TEST_P(TypedGemm, OfZerosIsZero) {
  GemmSpec spec{GetParam(), 256, 256, 256};
  spec.data = MatrixData::zeros;
  expect_checked_or_unsupported(spec);
}

TEST_F(GemmWork, OfRaggedShape) {
  for (const auto& spec :
       {GemmSpec{DType::bf16, 136, 72, 200}, GemmSpec{DType::bf16, 8, 1000, 4096}, GemmSpec{DType::f16, 136, 72, 200},
        GemmSpec{DType::f32, 127, 65, 33}, GemmSpec{DType::f64, 127, 65, 33}, GemmSpec{DType::tf32, 132, 68, 36},
        GemmSpec{DType::fp8_e4m3, 144, 80, 208}, GemmSpec{DType::int8, 144, 80, 208}}) {
    expect_checked_or_unsupported(spec);
  }
}

TEST_F(GemmWork, Fp8ExactIsCloserThanFast) {
  GemmSpec spec{DType::fp8_e4m3, 256, 256, 8192};
  expect_checked_or_unsupported(spec);
  spec.accumulate = Accumulate::exact;
  expect_checked_or_unsupported(spec);
}

TEST_F(GemmWork, Fp8WithEveryKindOfScaleFactor) {
  for (const auto scaling : {Scaling::row, Scaling::block128}) {
    for (const auto& [m, n, k] : {std::tuple{256, 256, 256}, {144, 400, 720}, {512, 256, 8192}}) {
      GemmSpec spec{DType::fp8_e4m3, m, n, k};
      spec.scaling = scaling;
      spec.accumulate = Accumulate::exact;
      expect_checked_or_unsupported(spec);
    }
  }
  GemmSpec fast{DType::fp8_e4m3, 256, 256, 8192};
  fast.scaling = Scaling::row;
  expect_checked_or_unsupported(fast);
}

TEST_F(GemmWork, BlockScaledTypesNeedBlackwell) {
  for (const auto dtype : {DType::nvfp4, DType::mxfp8}) {
    const auto text = message_of([&] { device_->prepare(GemmSpec{dtype, 256, 256, 256}); });
    if (text == "nothing was thrown") continue;
    EXPECT_TRUE(contains(text, std::string(name(dtype)) + " needs compute capability 10.0 or later, this GPU has ") ||
                contains(text, "needs cuBLASLt of CUDA"));
  }
}

TEST_F(GemmWork, OfOddShapeIsRightOrUnsupported) {
  try {
    expect_work_is_checked(GemmSpec{DType::bf16, 127, 65, 33}, 1);
  } catch (const Unsupported& reason) {
    EXPECT_TRUE(contains(reason.what(), "cuBLASLt"));
  }
}

TEST_F(GemmWork, OfAShapeWithoutAnAlgorithmIsUnsupportedAndNamesIt) {
  const GemmSpec odd{DType::fp8_e4m3, 17, 17, 17};  // fp8 needs sides of whole multiples of 16 bytes
  EXPECT_THROW(device_->prepare(odd), Unsupported);
  EXPECT_TRUE(contains(message_of([&] { device_->prepare(odd); }), "cuBLASLt has no algorithm for " + key(odd)));
  expect_checked_or_unsupported({DType::fp8_e4m3, 256, 256, 256});  // the device is still usable
}

TEST(GemmChoice, AsTextIsReadBack) {
  GemmCandidate candidate{1, 7, {}};
  auto* const bytes = reinterpret_cast<unsigned char*>(&candidate.algorithm);
  for (std::size_t i = 0; i < sizeof candidate.algorithm; ++i) bytes[i] = static_cast<unsigned char>(37 * i);
  const auto text = to_text(candidate);
  const auto again = candidate_from(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->layout, 1U);
  EXPECT_EQ(again->rank, 7U);
  EXPECT_EQ(std::memcmp(&again->algorithm, &candidate.algorithm, sizeof candidate.algorithm), 0);
  for (const auto& broken : {std::string(), std::string("0 0"), text.substr(0, text.size() - 1), text + " 1",
                             "x" + text, text.substr(0, text.size() - 1) + "g"}) {
    EXPECT_FALSE(candidate_from(broken)) << broken;
  }
}

TEST_F(GemmWork, TakesTheAlgorithmThatWasChosenBefore) {
  const GemmSpec spec{DType::bf16, 1024, 1024, 1024};
  const auto first = device_->prepare(spec);
  first->connect(group_);
  const auto choice = device_->choices().at(key(spec));

  const auto other = open_device({});
  auto forced = *candidate_from(choice);
  forced.rank = 1000;  // a marker that tuning never produces
  other->choices()[key(spec)] = to_text(forced);
  const auto second = other->prepare(spec);
  second->connect(group_);
  second->reset();
  EXPECT_GT(other->seconds(*second, 1), 0);
  EXPECT_TRUE(second->verify().passed());
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : second->metrics()) metrics[name] = value;
  EXPECT_EQ(metrics.at("candidate"), 1000);
}

TEST_F(GemmWork, MultipliesF64ByCublasDgemmInBothLayouts) {
  const GemmSpec spec{DType::f64, 127, 65, 33};
  for (const std::uint32_t layout : {0U, 1U}) {
    CudaDevice device(0, {});
    device.choices()[key(spec)] = to_text({layout, GemmCandidate::dgemm, {}});
    const auto work = device.prepare(spec);
    work->connect(group_);
    work->reset();
    work->stage(2);
    EXPECT_GT(device.seconds(*work, 2), 0);
    const auto check = work->verify();
    EXPECT_TRUE(check.passed()) << check.first;
    std::map<std::string, double> metrics;
    for (const auto& [name, value] : work->metrics()) metrics[name] = value;
    EXPECT_EQ(metrics.at("candidate"), GemmCandidate::dgemm);
    EXPECT_EQ(metrics.at("a_by_rows"), layout) << "matrices by columns first, as torch.matmul hands them over";
  }
}

TEST_F(GemmWork, TriesCublasDgemmAmongTheFirstOfF64AndOfNothingElse) {
  const auto places = [](DType dtype) {
    const GemmSpec spec{dtype, 256, 256, 256};
    const GemmPlan plan(spec, gemm_type(spec), nullptr);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < plan.candidates().size(); ++i) {
      if (plan.candidates()[i].rank == GemmCandidate::dgemm) found.push_back(i);
    }
    return found;
  };
  EXPECT_EQ(places(DType::f64), (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(places(DType::f32).empty());
}

TEST_F(GemmWork, RefusesAnAlgorithmThatDoesNotRunHere) {
  const GemmSpec spec{DType::bf16, 1024, 1024, 1024};
  const auto nonsense = to_text(GemmCandidate{0, 0, {}});
  const auto of_f64 = to_text(GemmCandidate{0, GemmCandidate::dgemm, {}});
  for (const auto& choice : {nonsense, "9" + nonsense, of_f64, std::string("nonsense")}) {
    device_->choices()[key(spec)] = choice;
    const auto work = device_->prepare(spec);
    EXPECT_TRUE(contains(message_of([&] { work->connect(group_); }), "the stored algorithm for " + key(spec)));
  }
}

TEST_F(GemmWork, OfNothingIsAMistake) {
  EXPECT_THROW(device_->prepare(GemmSpec{DType::bf16, 0, 128, 128}), std::invalid_argument);
}

TEST_F(GemmWork, ChecksumIsAnIntegerThatJsonCanHoldAndTheChoiceIsOnRecord) {
  const auto work = device_->prepare(GemmSpec{DType::bf16, 512, 512, 512});
  work->connect(group_);
  work->reset();
  device_->seconds(*work, 1);
  EXPECT_TRUE(work->verify().passed());
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : work->metrics()) metrics[name] = value;
  EXPECT_EQ(metrics.at("checksum"), std::floor(metrics.at("checksum")));
  EXPECT_LT(metrics.at("checksum"), 0x1p53);
  EXPECT_GT(metrics.at("tolerance_used"), 0);
  EXPECT_LE(metrics.at("tolerance_used"), 1);
  for (const auto* choice : {"algorithm", "tile", "candidate", "a_by_rows"}) EXPECT_GE(metrics.at(choice), 0) << choice;
}

TEST_F(GemmWork, TellsTheClockThatItRanAt) {
  const auto work = device_->prepare(GemmSpec{DType::f32, 4096, 4096, 4096});
  work->connect(group_);
  work->reset();
  device_->take_clock();
  EXPECT_EQ(device_->take_clock(), std::nullopt) << "nothing has been timed since";
  work->stage(20);
  device_->seconds(*work, 20);
  const auto clock = device_->take_clock();
  int khz = 0;
  check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
  ASSERT_TRUE(clock);
  EXPECT_GT(clock->mhz, khz / 1e3 * 0.4);
  EXPECT_LT(clock->mhz, khz / 1e3 * 1.01);
}

TEST_F(GemmWork, TakesWhatIsRememberedIfItIsNoSlowerAndTunesIfItDoesNotRun) {
  const GemmSpec spec{DType::bf16, 2048, 2048, 2048};
  device_->prepare(spec)->connect(group_);
  const auto chosen = device_->choices().at(key(spec));
  for (const auto& text : {chosen, std::string("0 1000 00ff"), std::string("no algorithm")}) {
    CudaDevice other(0, {});
    other.remembered()[key(spec)] = text;
    const auto work = other.prepare(spec);
    work->connect(group_);
    EXPECT_TRUE(candidate_from(other.choices().at(key(spec)))) << text;
    work->reset();
    work->stage(3);
    other.seconds(*work, 3);
    const auto check = work->verify();
    EXPECT_TRUE(check.passed()) << check.first;
  }
}

TEST_F(GemmWork, CountsTheCyclesOfAProductAsTheMedianOfSamples) {
  CudaDevice device(0, {});
  const auto work = device.prepare(GemmSpec{DType::f32, 2048, 2048, 2048});
  work->connect(group_);
  work->reset();
  device.take_clock();
  const auto sample = [&](int repeats) {
    work->stage(repeats);
    device.seconds(*work, repeats);
  };
  for (int i = 0; i < 5; ++i) sample(4);
  const auto usual = device.take_clock();
  CycleCounter counter(device.gpu());
  const auto count = [&](int repeats) {  // as if one operation had taken this long
    counter.begin();
    work->stage(repeats);
    for (int i = 0; i < repeats; ++i) work->enqueue();
    counter.end(1);
  };
  for (const int repeats : {1, 1, 40, 1, 1}) count(repeats);
  const auto with_hiccup = counter.take();
  ASSERT_TRUE(usual && with_hiccup);
  EXPECT_GT(with_hiccup->cycles, usual->cycles * 0.5);
  EXPECT_LT(with_hiccup->cycles, usual->cycles * 4) << "the mean would be 9 times as much";
  EXPECT_EQ(counter.take(), std::nullopt);
}

TEST_F(GemmWork, ARankThatStandsByIsCheckedButNotTimed) {
  Placement placement;
  placement.local_rank = 1;
  placement.local_size = 2;
  CudaDevice second(0, placement);
  for (const int active : {0, 1}) {
    GemmSpec spec{DType::bf16, 256, 256, 256};
    spec.active = active;
    const auto work = second.prepare(spec);
    work->connect(group_);
    work->reset();
    EXPECT_EQ(work->credited_rank(7), active == 1 ? std::optional(7) : std::nullopt);
    EXPECT_EQ(work->verify().passed(), active == 0);  // the active rank has not multiplied yet
    EXPECT_EQ(device_->seconds(*work, 2) > 0, active == 1);
    second.gpu().synchronize();
    work->corrupt();
    EXPECT_FALSE(work->verify().passed());
  }
  GemmSpec missing{DType::bf16, 256, 256, 256};
  missing.active = 2;
  EXPECT_TRUE(contains(message_of([&] { second.prepare(missing); }), "only 2 ranks"));
}

}  // namespace
}  // namespace shakedown::cuda
