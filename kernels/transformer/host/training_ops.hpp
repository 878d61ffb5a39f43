// The operations of a training step on the host, in float or double, as simple loops that are easy to verify. The host
// operations are the reference for tests of the CUDA operations, and let the step run without a GPU.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/host/buffer.hpp"
#include "kernels/host/team.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/transformer/ops.hpp"

namespace shakedown::host {

/// Sums run in double and are rounded to T once. Every call completes its work before it returns.
template <class T>
class HostOps {
 public:
  using Element = T;
  using Master = T;
  template <class X>
  using Matrix = training::Matrix<X>;

  /// The team must outlive it.
  explicit HostOps(Team& team) : team_(team) {}

  std::size_t workspace_bytes() const { return 0; }
  void use_workspace(std::byte*) {}
  class Memory;
  Memory allocate(std::size_t bytes);
  void copy_in(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  Memory host_memory(std::size_t bytes);
  void begin_copy(void* to, const void* from, std::size_t bytes, std::size_t) { std::memcpy(to, from, bytes); }
  void finish_copy(std::size_t) {}
  static T to_element(double x) { return static_cast<T>(x); }
  static double to_double(T x) { return static_cast<double>(x); }
  void set_bytes(void* to, int value, std::size_t bytes) { std::memset(to, value, bytes); }
  void copy_bytes(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void fill_normal(Matrix<T>, double stddev, std::uint64_t tensor);
  void fill_normal(T* values, std::size_t count, double stddev, std::uint64_t tensor, std::size_t first = 0,
                   const training::Numbers& = {});
  void place_copies(std::span<const training::ParameterSlot<T>> slots) { slots_.assign(slots.begin(), slots.end()); }
  void repeat(std::size_t, const std::function<void()>& queue) { queue(); }
  void synchronize() {}
  void connect(Group& group, Group* together = nullptr) {
    group_ = &group;
    together_ = together;
  }
  void start_tuning(const Choices& = {}, const TuningShare& = {}) {}
  bool finish_tuning(Group&, Choices* = nullptr, Tilings* = nullptr) { return true; }
  std::size_t used_bytes() const;
  Metrics metrics() const { return {}; }

  void gemm(const training::Gemm<T, T>&);
  void gemm(const training::QuantizedGemm<T>&);
  static training::ProductErrors quantized_errors(std::size_t, training::Accumulation) {
    constexpr double u = std::numeric_limits<T>::epsilon() / 2;
    return {u, u};
  }
  void quantize(Matrix<const T> x, const training::QuantizedRows& to);
  void quantize_transposed(Matrix<const T> x, const training::QuantizedRows& to);
  void requantize(Matrix<const T> x, std::size_t first, const training::QuantizedRows& to);
  void requantize_transposed(Matrix<const T> x, std::size_t first, const training::QuantizedRows& to);
  void copy(Matrix<const T> from, Matrix<T> to);

  void embedding(Matrix<const T> table, const int* tokens, Matrix<const T> positions, std::size_t seq, Matrix<T> out);
  void embedding_backward(Matrix<const T> dx, const int* tokens, const int* order, Matrix<T> d_table);
  void norm(Matrix<const T> x, const training::NormWeights<T>&, double eps, Matrix<T> n,
            const training::NormStatistics<T>&);
  void norm_backward(Matrix<const T> dn, Matrix<const T> x, const training::NormWeights<T>&,
                     const training::NormStatistics<T>&, bool accumulate, Matrix<T> dx, Matrix<T> n,
                     const training::NormGradient<T>& = {});
  void sum_rows(Matrix<const T> dy, bool accumulate, T* sums);
  void rope(Matrix<T> qkv, const T* table, const training::AttentionShape&, training::Rotation);
  void attention(Matrix<const T> qkv, Matrix<T> o, T* lse, const training::AttentionShape&);
  void attention_backward(Matrix<const T> qkv, Matrix<const T> o, const T* lse, Matrix<const T> d_o, Matrix<T> d_qkv,
                          const training::AttentionShape&);
  void swiglu(Matrix<const T> gate_up, Matrix<T> h);
  void swiglu_backward(Matrix<T> gate_up, Matrix<T> dh, bool emit_h);
  void gelu(Matrix<const T> u, Matrix<T> h);
  void gelu_backward(Matrix<T> u, Matrix<T> dh, bool emit_h);
  void cross_entropy(Matrix<T> logits, const int* targets, double scale, T* losses);
  void add_sum(const T* values, std::size_t count, double scale, double* to);

  void gather_tokens(Matrix<T> all);
  void scatter_tokens(Matrix<T> all, Matrix<T> own);
  void sum_together(T* values, std::size_t count) { sum(*together_, values, count); }
  void sum_together(training::Summary* summary) { sum(*together_, summary); }

  void summarize(const T* values, std::size_t first, std::size_t count, training::Summary*);
  void adamw(const training::FlatState<T>&, const training::AdamW&, const training::Summary* gradient,
             training::Summary* updated, std::size_t first, std::size_t slots);
  void adamw(const training::Bf16State<T, T>&, const training::AdamW&, const training::Summary* gradient,
             training::Summary* updated, std::size_t first, std::size_t slots);
  void round_to_bf16(const T* from, T* to, std::size_t count);
  void write_copies(const T* parameters);
  void all_reduce(T* values, std::size_t count);
  void all_reduce(training::Summary* summary) {
    exchange([&] { sum(*group_, summary); });
  }
  std::size_t reduce_scatter(T* all, T* own, std::size_t count, bool add, const training::ShareSummaries&);
  bool fetches_sums() const { return true; }
  static std::string attention_name() { return "plain"; }
  static std::string fallback() { return ""; }
  static bool is_deterministic() { return true; }
  std::size_t all_gather(const T* own, T* all, std::size_t count);
  void meet() {}  // all_gather synchronizes the ranks
  void wait(std::size_t) {}
  void join_reductions() {}
  void mark(training::Mark m) {
    marks_[static_cast<std::size_t>(m)] = Clock::now();
    if (m == training::Mark::begin) waited_ = {};
    if (m == training::Mark::begin || m == training::Mark::end) in_step_ = m == training::Mark::begin;
  }
  double exchange_wait() const { return std::chrono::duration<double, std::milli>(waited_).count(); }
  double milliseconds(training::Mark begin, training::Mark end) const;
  void record_point(std::size_t number) {
    points_.resize(number);
    points_.push_back(Clock::now());
  }
  double milliseconds_between(std::size_t from, std::size_t to) const {
    return std::chrono::duration<double, std::milli>(points_.at(to) - points_.at(from)).count();
  }
  void start_kernel_times() {}
  void begin_part(const std::string&, PartClass, std::size_t) {}
  void end_part() {}
  std::optional<std::vector<double>> kernel_times(std::size_t) { return std::nullopt; }
  std::optional<double> cycles(const std::function<void()>& queue) {
    queue();
    return std::nullopt;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Runs task(i) for i in 0..count, with the whole team if the total work is worth waking it.
  void each(std::size_t count, double work_of_one, const std::function<void(std::size_t)>& task);
  /// Computes sums[c] = (accumulate ? sums[c] : 0) + the sum over rows of value(row, c).
  template <class Value>
  void sum_columns(std::size_t rows, std::size_t cols, bool accumulate, T* sums, const Value& value);

  /// Computes AdamW of a slot, and passes the parameter and the moments of each value to store(inside, p, m, v).
  template <class Store>
  void update(const training::ParameterSlot<T>&, const auto& state, const training::AdamW&, double clip, const Store&);

  /// Runs an exchange between ranks, for which the step waits.
  void exchange(const auto& transfer) {
    const auto begin = Clock::now();
    transfer();
    if (in_step_ && group_->size() > 1) waited_ += Clock::now() - begin;
  }

  static void sum(Group&, T* values, std::size_t count);
  static void sum(Group&, training::Summary*);

  static void write_copy(const training::ParameterSlot<T>&, const T* parameters);

  Team& team_;
  Group *group_ = nullptr, *together_ = nullptr;
  std::vector<training::ParameterSlot<T>> slots_;
  std::vector<T> summed_;
  std::array<Clock::time_point, training::marks> marks_;
  bool in_step_ = false;
  Clock::duration waited_{};  // in the last step
  std::vector<Clock::time_point> points_;
};

template <class T>
class HostOps<T>::Memory {
 public:
  explicit Memory(std::size_t bytes) : mapping_(map_memory(bytes)) {}
  std::byte* data() const { return mapping_.get(); }

 private:
  Mapping mapping_;
};

template <class T>
typename HostOps<T>::Memory HostOps<T>::allocate(std::size_t bytes) {
  return Memory(bytes);
}
template <class T>
typename HostOps<T>::Memory HostOps<T>::host_memory(std::size_t bytes) {
  require_host_memory(bytes, 1);
  return Memory(bytes);
}

}  // namespace shakedown::host
