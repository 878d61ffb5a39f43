// Dense matrix product on the CPU through OpenBLAS; checked by sampled rows and by Freivalds' method. f32 and f64 are
// multiplied as they are. fp8_e4m3 with its scale factors is multiplied in f32, and int8 in f64, which is exact.
#include <cblas.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/gemm_scales.hpp"
#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/ops/gemm.hpp"
#include "kernels/reference.hpp"
#include "kernels/short_floats.hpp"
#include "kernels/trail.hpp"

namespace shakedown::host {

namespace {

/// The types of a product: of its stored inputs, of OpenBLAS's product, and of the stored result; and their unit
/// roundoffs, for reference::gemm_tolerance.
template <class Float>
struct Plain {
  using Input = Float;
  using Computed = Float;
  using Output = Float;
  static constexpr double u_out = std::numeric_limits<Float>::epsilon() / 2, u_acc = u_out;
  static Float round(double value) { return static_cast<Float>(value); }
  static Float value(Float input) { return input; }
  static double read(Float output) { return static_cast<double>(output); }
  static Float write(double value) { return static_cast<Float>(value); }
};

struct E4m3 {
  using Input = std::uint8_t;
  using Computed = float;
  using Output = std::uint16_t;
  static constexpr double u_out = 0x1p-8, u_acc = 0x1p-24;
  static std::uint8_t round(double value) { return to_float8(static_cast<float>(value), Float8::e4m3); }
  static float value(std::uint8_t input) { return from_float8(input, Float8::e4m3); }
  static double read(std::uint16_t output) { return static_cast<double>(from_bf16(output)); }
  static std::uint16_t write(double value) { return to_bf16(static_cast<float>(value)); }
};

struct Int8 {
  using Input = std::int8_t;
  using Computed = double;
  using Output = std::int32_t;
  static constexpr double u_out = 0, u_acc = 0;
  static std::int8_t round(double value) {
    return static_cast<std::int8_t>(std::nearbyint(std::clamp(value * int8_deviation, -127.0, 127.0)));
  }
  static double value(std::int8_t input) { return input; }
  static double read(std::int32_t output) { return output; }
  static std::int32_t write(double value) { return static_cast<std::int32_t>(value); }
};

template <class Type>
class Gemm final : public Work {
  using Input = typename Type::Input;
  using Computed = typename Type::Computed;
  using Output = typename Type::Output;

 public:
  Gemm(const GemmSpec& spec, int threads)
      : spec_(spec),
        m_(size(spec.m)),
        n_(size(spec.n)),
        k_(size(spec.k)),
        threads_(threads),
        scales_(gemm_scales(spec)),
        trail_(m_ * n_ * sizeof(Output)) {
    a_.resize(m_ * k_);
    b_.resize(k_ * n_);
    outputs_ = map_memory(trail_.room());
    reset();
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = Type::round(reference::normal(i, stream_a));
    for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = Type::round(reference::normal(i, stream_b));
    if constexpr (is_plain) return;
    write_factors();
    wide_a_.resize(a_.size());
    wide_b_.resize(b_.size());
    wide_c_.resize(m_ * n_);
  }

  /// Compares bits between ranks only if all ranks use the same code. OpenBLAS selects kernels by CPU type, and block
  /// boundaries by the number of threads.
  void connect(Group& group) override {
    const std::string mine = openblas_get_corename() + std::string(", ") + std::to_string(threads_);
    comparable_ = group.all_same(mine);
  }

  void enqueue() override {
    openblas_set_num_threads(threads_);
    trail_.next();
    if constexpr (is_plain) {
      multiply(a_.data(), b_.data(), c_());
    } else {
      widen();
      multiply(wide_a_.data(), wide_b_.data(), wide_c_.data());
      std::transform(wide_c_.begin(), wide_c_.end(), c_(), Type::write);
    }
  }

  void reset() override {
    trail_.restart();
    std::memset(outputs_.get(), nan_byte, trail_.room());
  }

  void stage(int repeats) override { stage_trail(whole(), trail_, repeats, nan_byte); }

  Check verify() override {
    Checker checker;
    check_sampled_rows(checker);
    check_all_elements(checker);
    auto check = checker.result();
    check_trail(whole(), trail_, check);
    return check;
  }

  std::optional<std::uint64_t> digest() const override {
    if (trail_.bytes() > max_digested_bytes) return std::nullopt;
    return digest_of(whole().subspan(trail_.last(), trail_.bytes()));
  }

  Metrics metrics() override {
    const auto n = static_cast<double>(n_), k = static_cast<double>(k_);
    // In standard deviations of an element, each of which is sqrt(k).
    const double in_a_row = 8 * std::sqrt(n) * (Type::u_out + Type::u_acc * std::sqrt(k));
    Metrics metrics{{"least_error_found", in_a_row}};
    const auto sum = comparable_ ? digest() : std::nullopt;
    constexpr auto max_exact_integer =
        (std::uint64_t{1} << 53) - 1;  // all integers up to this one are exact in a double
    if (sum) metrics.emplace_back("checksum", static_cast<double>(*sum & max_exact_integer));
    return metrics;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }
  void corrupt() override {
    auto& element = c_()[m_ * n_ / 2];
    element = Type::write(Type::read(element) + static_cast<double>(k_));
  }

 private:
  static constexpr bool is_plain = std::is_same_v<Input, Computed>;
  static constexpr std::uint64_t stream_a = 1, stream_b = 2;
  static constexpr int nan_byte = 0xff;  // the value of every byte: a NaN, or the integer -1

  static std::size_t size(int extent) {
    if (extent <= 0) throw std::invalid_argument("a matrix needs at least one row and one column");
    return static_cast<std::size_t>(extent);
  }

  void write_factors() {
    factors_.resize(scales_.count);
    if (factors_.empty()) return;
    const auto write = [this](std::size_t begin, const reference::FloatScales& scales, std::size_t rows) {
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t l = 0; l < k_; ++l) factors_[begin + scales.place(row, l)] = scales.at(row, l);
      }
    };
    write(0, scales_.a, m_);
    write(scales_.b_begin, scales_.b, n_);
  }

  /// Converts the inputs and multiplies them by the factors in memory.
  void widen() {
    const auto factor = [this](std::size_t begin, const reference::FloatScales& scales, std::size_t row,
                               std::size_t l) {
      return factors_.empty() ? Computed{1} : Computed{factors_[begin + scales.place(row, l)]};
    };
    for (std::size_t i = 0; i < a_.size(); ++i) {
      wide_a_[i] = Type::value(a_[i]) * factor(0, scales_.a, i / k_, i % k_);
    }
    for (std::size_t i = 0; i < b_.size(); ++i) {
      wide_b_[i] = Type::value(b_[i]) * factor(scales_.b_begin, scales_.b, i % n_, i / n_);
    }
  }

  void multiply(const Computed* a, const Computed* b, Computed* c) const {
    const auto m = static_cast<int>(m_), n = static_cast<int>(n_), k = static_cast<int>(k_);
    if constexpr (std::is_same_v<Computed, float>) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
    } else {
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
    }
  }

  double a_at(std::size_t i, std::size_t l) const {
    return static_cast<double>(Type::value(a_[i * k_ + l])) * static_cast<double>(scales_.a.at(i, l));
  }
  double b_at(std::size_t l, std::size_t j) const {
    return static_cast<double>(Type::value(b_[l * n_ + j])) * static_cast<double>(scales_.b.at(j, l));
  }

  /// Recomputes four whole rows in long double and checks each element against its own bound.
  void check_sampled_rows(Checker& checker) const {
    const Output* const c = c_();
    std::vector<double> column_norm(n_);
    for (std::size_t l = 0; l < k_; ++l) {
      for (std::size_t j = 0; j < n_; ++j) column_norm[j] += square(b_at(l, j));
    }
    for (const std::size_t i : std::array{std::size_t{0}, m_ / 3, m_ / 2, m_ - 1}) {
      std::vector<long double> exact(n_);
      double row_norm = 0;
      for (std::size_t l = 0; l < k_; ++l) {
        const long double a = a_at(i, l);
        row_norm += square(a_at(i, l));
        for (std::size_t j = 0; j < n_; ++j) exact[j] += a * b_at(l, j);
      }
      for (std::size_t j = 0; j < n_; ++j) {
        const auto want = static_cast<double>(exact[j]);
        checker.expect_near(
            i * n_ + j, Type::read(c[i * n_ + j]), want,
            reference::gemm_tolerance(Type::u_out, Type::u_acc, want, std::sqrt(row_norm), std::sqrt(column_norm[j])));
      }
    }
  }

  /// Freivalds, "Probabilistic machines can use less running time", 1977: C x = A (B x) for a vector x of random signs.
  /// Every element of C contributes. The bound of a row is 8 sqrt(n) times the error of one element: its n
  /// errors have random signs (Hoeffding).
  void check_all_elements(Checker& checker) const {
    const Output* const c = c_();
    std::vector<long double> bx(k_);
    double b_norm = 0;
    for (std::size_t l = 0; l < k_; ++l) {
      for (std::size_t j = 0; j < n_; ++j) {
        bx[l] += b_at(l, j) * reference::sign(j, stream_b);
        b_norm += square(b_at(l, j));
      }
    }
    const auto n = static_cast<double>(n_);
    for (std::size_t i = 0; i < m_; ++i) {
      long double abx = 0, cx = 0;
      double row_norm = 0, c_norm = 0;
      for (std::size_t l = 0; l < k_; ++l) {
        abx += a_at(i, l) * bx[l];
        row_norm += square(a_at(i, l));
      }
      for (std::size_t j = 0; j < n_; ++j) {
        cx += Type::read(c[i * n_ + j]) * reference::sign(j, stream_b);
        c_norm += square(Type::read(c[i * n_ + j]));
      }
      const double one_element = reference::gemm_tolerance(8 * Type::u_out, Type::u_acc, std::sqrt(c_norm / n),
                                                           std::sqrt(row_norm), std::sqrt(b_norm / n));
      checker.expect_near(i * n_, static_cast<double>(cx), static_cast<double>(abx), one_element * std::sqrt(n));
    }
  }

  std::span<std::byte> whole() const { return {outputs_.get(), trail_.room()}; }
  /// Returns the last product.
  Output* c_() const { return reinterpret_cast<Output*>(outputs_.get() + trail_.last()); }

  static double square(double x) { return x * x; }

  GemmSpec spec_;
  std::size_t m_, n_, k_;
  int threads_;
  bool comparable_ = false;
  GemmScales scales_;
  std::vector<Input> a_, b_;
  std::vector<float> factors_;
  std::vector<Computed> wide_a_, wide_b_, wide_c_;
  Trail trail_;
  Mapping outputs_;
};

}  // namespace

std::unique_ptr<Work> make(const GemmSpec& spec, HostDevice& device) {
  if (spec.data != MatrixData::normal || spec.active) {
    throw Unsupported("the host backend multiplies random data on all ranks at once only");
  }
  const int threads = device.team().size();
  if (spec.dtype == DType::fp8_e4m3) return std::make_unique<Gemm<E4m3>>(spec, threads);
  if (spec.accumulate != Accumulate::fast) throw Unsupported("accumulate:exact is for fp8_e4m3");
  if (spec.dtype == DType::f32) return std::make_unique<Gemm<Plain<float>>>(spec, threads);
  if (spec.dtype == DType::f64) return std::make_unique<Gemm<Plain<double>>>(spec, threads);
  if (spec.dtype == DType::int8) return std::make_unique<Gemm<Int8>>(spec, threads);
  throw Unsupported("the host backend multiplies f32, f64, fp8_e4m3 and int8 only, not " +
                    std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
