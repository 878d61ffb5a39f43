// Dense matrix product on the CPU through OpenBLAS, f32 and f64; checked by sampled rows and by Freivalds' method.
#include <cblas.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/ops/gemm.hpp"
#include "kernels/reference.hpp"
#include "kernels/trail.hpp"

namespace shakedown::host {

namespace {

template <class T>
class Gemm final : public Work {
 public:
  Gemm(const GemmSpec& spec, int threads)
      : spec_(spec),
        m_(size(spec.m)),
        n_(size(spec.n)),
        k_(size(spec.k)),
        threads_(threads),
        trail_(m_ * n_ * sizeof(T)) {
    a_.resize(m_ * k_);
    b_.resize(k_ * n_);
    outputs_ = map_memory(trail_.room());
    reset();
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<T>(reference::normal(i, stream_a));
    for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = static_cast<T>(reference::normal(i, stream_b));
  }

  /// Compares bits between ranks only if all ranks use the same code. OpenBLAS selects kernels by CPU type, and block
  /// boundaries by the number of threads.
  void connect(Group& group) override {
    const std::string mine = openblas_get_corename() + std::string(", ") + std::to_string(threads_);
    const auto all = group.gather(mine);
    comparable_ = std::count(all.begin(), all.end(), all.front()) == std::ssize(all);
  }

  void enqueue() override {
    openblas_set_num_threads(threads_);
    trail_.next();
    T* const c = c_();
    const auto m = static_cast<int>(m_), n = static_cast<int>(n_), k = static_cast<int>(k_);
    if constexpr (std::is_same_v<T, float>) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a_.data(), k, b_.data(), n, 0, c, n);
    } else {
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a_.data(), k, b_.data(), n, 0, c, n);
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
    if (trail_.bytes() > most_digested) return std::nullopt;
    return digest_of(whole().subspan(trail_.last(), trail_.bytes()));
  }

  Metrics metrics() override {
    const auto n = static_cast<double>(n_), k = static_cast<double>(k_);
    // In standard deviations of an element, each of which is sqrt(k).
    const double in_a_row = std::sqrt(n) * unit_roundoff * (1 + 8 * std::sqrt(k));
    Metrics metrics{{"least_error_found", in_a_row}};
    const auto sum = comparable_ ? digest() : std::nullopt;
    constexpr auto exact = (std::uint64_t{1} << 53) - 1;  // all integers up to this one are exact in a double
    if (sum) metrics.emplace_back("checksum", static_cast<double>(*sum & exact));
    return metrics;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }
  void corrupt() override { c_()[m_ * n_ / 2] += static_cast<T>(k_); }

 private:
  static constexpr std::uint64_t stream_a = 1, stream_b = 2;
  static constexpr int nan_byte = 0xff;  // the value of every byte, a NaN
  static constexpr double unit_roundoff = std::numeric_limits<T>::epsilon() / 2;

  static std::size_t size(int extent) {
    if (extent <= 0) throw std::invalid_argument("a matrix needs at least one row and one column");
    return static_cast<std::size_t>(extent);
  }

  /// Recomputes four whole rows in long double and checks each element against its own bound.
  void check_sampled_rows(Checker& checker) const {
    const T* const c = c_();
    std::vector<double> column_norm(n_);
    for (std::size_t l = 0; l < k_; ++l) {
      for (std::size_t j = 0; j < n_; ++j) column_norm[j] += square(b_[l * n_ + j]);
    }
    for (const std::size_t i : std::array{std::size_t{0}, m_ / 3, m_ / 2, m_ - 1}) {
      std::vector<long double> exact(n_);
      double row_norm = 0;
      for (std::size_t l = 0; l < k_; ++l) {
        const long double a = a_[i * k_ + l];
        row_norm += square(a_[i * k_ + l]);
        for (std::size_t j = 0; j < n_; ++j) exact[j] += a * b_[l * n_ + j];
      }
      for (std::size_t j = 0; j < n_; ++j) {
        const auto want = static_cast<double>(exact[j]);
        checker.expect_near(i * n_ + j, c[i * n_ + j], want,
                            reference::gemm_tolerance(unit_roundoff, unit_roundoff, want, std::sqrt(row_norm),
                                                      std::sqrt(column_norm[j])));
      }
    }
  }

  /// Freivalds, "Probabilistic machines can use less running time", 1977: C x = A (B x) for a vector x of random signs.
  /// Every element of C contributes. The bound of a row is that of one element times sqrt(n), because its n errors have
  /// random signs.
  void check_all_elements(Checker& checker) const {
    const T* const c = c_();
    std::vector<long double> bx(k_);
    double b_norm = 0;
    for (std::size_t l = 0; l < k_; ++l) {
      for (std::size_t j = 0; j < n_; ++j) {
        bx[l] += b_[l * n_ + j] * reference::sign(j, stream_b);
        b_norm += square(b_[l * n_ + j]);
      }
    }
    const auto n = static_cast<double>(n_);
    for (std::size_t i = 0; i < m_; ++i) {
      long double abx = 0, cx = 0;
      double row_norm = 0, c_norm = 0;
      for (std::size_t l = 0; l < k_; ++l) {
        abx += a_[i * k_ + l] * bx[l];
        row_norm += square(a_[i * k_ + l]);
      }
      for (std::size_t j = 0; j < n_; ++j) {
        cx += c[i * n_ + j] * reference::sign(j, stream_b);
        c_norm += square(c[i * n_ + j]);
      }
      const double one_element = reference::gemm_tolerance(unit_roundoff, unit_roundoff, std::sqrt(c_norm / n),
                                                           std::sqrt(row_norm), std::sqrt(b_norm / n));
      checker.expect_near(i * n_, static_cast<double>(cx), static_cast<double>(abx), one_element * std::sqrt(n));
    }
  }

  std::span<std::byte> whole() const { return {outputs_.get(), trail_.room()}; }
  /// Returns the last product.
  T* c_() const { return reinterpret_cast<T*>(outputs_.get() + trail_.last()); }

  static double square(T x) { return static_cast<double>(x) * static_cast<double>(x); }

  GemmSpec spec_;
  std::size_t m_, n_, k_;
  int threads_;
  bool comparable_ = false;
  std::vector<T> a_, b_;
  Trail trail_;
  Mapping outputs_;
};

}  // namespace

std::unique_ptr<Work> make(const GemmSpec& spec, HostDevice& device) {
  if (spec.accumulate != Accumulate::fast || spec.data != MatrixData::normal || spec.active) {
    throw Unsupported("the host backend multiplies random data on all ranks at once only");
  }
  if (spec.dtype == DType::f32) return std::make_unique<Gemm<float>>(spec, device.team().size());
  if (spec.dtype == DType::f64) return std::make_unique<Gemm<double>>(spec, device.team().size());
  throw Unsupported("the host backend multiplies f32 and f64 only (OpenBLAS), not " + std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
