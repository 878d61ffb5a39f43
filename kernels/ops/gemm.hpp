// Dense matrix products.
#pragma once

#include <optional>

#include "kernels/ops/operation.hpp"

namespace shakedown {

/// For fp8: `fast` sums in the short accumulator of the tensor core, `exact` adds partial sums in f32 at intervals.
enum class Accumulate { fast, exact };
/// The scale factors of fp8: 1; one for each row of A and column of B ("outer vectors"); or one for each 128 elements
/// along k of a row of A and for each block of 128 x 128 elements of B, as DeepSeek-V3 was trained.
enum class Scaling { tensor, row, block128 };
constexpr auto words(Scaling) { return names("tensor", "row", "block128"); }
/// For comparison: zeros switch fewer transistors, which means less power and higher clocks.
enum class MatrixData { normal, zeros };
enum class Load { burst, sustained };  // a sustained load lasts long enough that power and cooling limit the rate

/// Standard deviation of int8 inputs. They use the whole range: 127 is 4 standard deviations, and larger values are
/// clamped.
inline constexpr double int8_deviation = 32;

/// Returns the bytes of one element of a product: bf16 for inputs in 4-bit and 8-bit floats, int32 for int8, otherwise
/// the input type.
inline std::size_t product_size_of(DType dtype) {
  switch (dtype) {
    case DType::fp8_e4m3:
    case DType::nvfp4:
    case DType::mxfp8: return 2;
    case DType::int8: return 4;
    default: return size_of(dtype);
  }
}

/// C (m x n) = A (m x k) B (k x n). The inputs are seeded standard normal numbers, rounded to the type (int8: with
/// standard deviation int8_deviation). Cost: 2 m n k flops.
struct GemmSpec {
  static constexpr std::string_view description = "a dense matrix product";

  DType dtype;
  int m, n, k;
  Accumulate accumulate = Accumulate::fast;
  Scaling scaling = Scaling::tensor;
  MatrixData data = MatrixData::normal;
  Load load = Load::burst;
  std::optional<int> active = std::nullopt;  // the local rank that multiplies while the others of its host are idle
};

/// Returns the key, such as gemm/dtype:bf16/m:8192/n:8192/k:8192[/scale:row][/load:sustained][/active:one/rank:2].
inline std::string key(const GemmSpec& s) {
  Key key("gemm");
  key.set("dtype", s.dtype).set("m", s.m).set("n", s.n).set("k", s.k);
  if (s.accumulate == Accumulate::exact) key.set("accumulate", "exact");
  if (s.scaling != Scaling::tensor) key.set("scale", s.scaling);
  if (s.data == MatrixData::zeros) key.set("data", "zeros");
  if (s.load == Load::sustained) key.set("load", "sustained");
  if (s.active) key.set("active", "one").set("rank", s.active);
  return key.text();
}

inline Cost cost(const GemmSpec& s) { return {2.0 * s.m * s.n * s.k, 0}; }

inline std::size_t footprint(const GemmSpec& s) {
  const auto m = static_cast<std::size_t>(s.m), n = static_cast<std::size_t>(s.n), k = static_cast<std::size_t>(s.k);
  return bytes_of(s.dtype, m * k) + bytes_of(s.dtype, k * n) + m * n * product_size_of(s.dtype);
}

}  // namespace shakedown
