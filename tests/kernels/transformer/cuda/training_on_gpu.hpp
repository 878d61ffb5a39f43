// Shared by the tests of training operations: strided matrices on the GPU with poison around them, the operations of
// the host in f64, and the tolerances. A bf16 output may differ by its rounding (relative norm 4e-3; attention 1e-2),
// an f32 output by 1e-5.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/reference.hpp"
#include "kernels/transformer/host/training_ops.hpp"
#include "tests/kernels/cuda/on_gpu.hpp"

namespace shakedown::cuda {

inline constexpr double rounding = 4e-3, attention_rounding = 1e-2, f32_rounding = 1e-5;
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

inline double rounded(double value) { return __bfloat162float(__double2bfloat16(value)); }

/// A strided matrix on the GPU, and its elements in f64 on the host. Each row is followed by `room` columns that must
/// not change.
template <class T>
class DeviceMatrix {
 public:
  DeviceMatrix(const Gpu& gpu, std::size_t rows, std::size_t cols, std::size_t room = 0)
      : gpu_(gpu), rows_(rows), cols_(cols), stride_(cols + room), buffer_(rows * stride_ * sizeof(T)) {
    gpu_.fill(buffer_, 0xff);
  }

  /// Fills the matrix with normal numbers, rounded to the type.
  DeviceMatrix& normal(std::uint64_t stream, double deviation = 1) {
    std::vector<double> values(rows_ * cols_);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = deviation * reference::normal(i, stream);
    return write(values);
  }

  DeviceMatrix& write(const std::vector<double>& values) {
    auto raw = download();
    for (std::size_t i = 0; i < values.size(); ++i) raw[i / cols_ * stride_ + i % cols_] = to(values[i]);
    gpu_.write(buffer_.data(), raw.data(), buffer_.bytes());
    return *this;
  }

  /// Returns the elements; a failure if the padding between rows has changed.
  std::vector<double> read() const {
    const auto raw = download();
    std::vector<double> values;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (i % stride_ < cols_) {
        values.push_back(from(raw[i]));
      } else if (!std::isnan(from(raw[i]))) {
        ADD_FAILURE() << "something was written after row " << i / stride_;
        break;
      }
    }
    return values;
  }
  std::vector<T> bits() const { return download(); }

  Matrix<T> matrix() const { return {buffer_.data<T>(), rows_, cols_, stride_}; }
  operator Matrix<T>() const { return matrix(); }
  operator Matrix<const T>() const { return matrix(); }
  T* data() const { return buffer_.data<T>(); }

 private:
  static T to(double value) {
    if constexpr (std::is_same_v<T, Bf16>)
      return __double2bfloat16(value);
    else
      return static_cast<T>(value);
  }
  static double from(T value) {
    if constexpr (std::is_same_v<T, Bf16>)
      return __bfloat162float(value);
    else
      return static_cast<double>(value);
  }
  std::vector<T> download() const {
    std::vector<T> raw(rows_ * stride_);
    gpu_.read(raw.data(), buffer_.data(), raw.size() * sizeof(T));
    return raw;
  }

  const Gpu& gpu_;
  std::size_t rows_, cols_, stride_;
  Buffer buffer_;
};

/// Checks |got - want| / |want|, and that no single element is far off.
inline ::testing::AssertionResult close(const std::vector<double>& got, const std::vector<double>& want,
                                        double relative) {
  if (got.size() != want.size()) return ::testing::AssertionFailure() << got.size() << " of " << want.size();
  double error = 0, size = 0, worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    if (!(difference <= worst)) worst = difference, where = i;
    error += difference * difference;
    size += want[i] * want[i];
  }
  error = std::sqrt(error), size = std::sqrt(size);
  const double largest_one = 20 * relative * size / std::sqrt(static_cast<double>(want.size()));
  const double own = std::isfinite(want[where]) ? 4 * relative * std::abs(want[where]) : 0;
  if (error <= relative * size && worst <= std::max(largest_one, own)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "relative error " << error / size << ", element " << where << " is "
                                       << got[where] << ", expected " << want[where];
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class CudaTraining : public OnGpu {
 protected:
  using M = DeviceMatrix<Bf16>;
  using F = DeviceMatrix<float>;

  M bf16(std::size_t rows, std::size_t cols, std::size_t room = 0) const { return {*gpu_, rows, cols, room}; }
  F f32(std::size_t rows, std::size_t cols = 1, std::size_t room = 0) const { return {*gpu_, rows, cols, room}; }
  cudaStream_t stream() const { return gpu_->stream(); }
};

/// The operations of the host in f64 on values as `read` returns them: rows without padding.
class OnHost {
 public:
  using Values = std::vector<double>;

  static Matrix<double> matrix(Values& values, std::size_t rows) {
    return {values.data(), rows, values.size() / rows, values.size() / rows};
  }
  host::HostOps<double>* operator->() { return &ops_; }

 private:
  host::Team team_{2};
  host::HostOps<double> ops_{team_};
};

}  // namespace shakedown::cuda
