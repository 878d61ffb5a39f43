// The operations of a backend, each between two points in time while a profile is recorded. Without a profile an
// operation costs one branch more. The class of an operation is stated here and nowhere else.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/profile.hpp"
#include "kernels/transformer/ops.hpp"

namespace shakedown::training {

/// Names a product by the rows and columns of D and the number of terms of each sum.
template <class In, class Out>
std::string name_of(const Gemm<In, Out>& g) {
  return "gemm " + std::to_string(g.d.rows) + "x" + std::to_string(g.d.cols) + "x" +
         std::to_string(g.a_transposed ? g.a.rows : g.a.cols);
}
template <class Element, class Out>
std::string name_of(const QuantizedGemm<Element, Out>& g) {
  return "gemm fp8 " + std::to_string(g.d.rows) + "x" + std::to_string(g.d.cols) + "x" +
         std::to_string(g.a.values.cols);
}

template <TrainingOps Base>
class ProfiledOps : public Base {
 public:
  using Base::Base;

  /// Profiles all steps from now on, with the times of kernels after start_kernel_times. A step that is usually
  /// launched as a whole is queued operation by operation.
  void start_profile() {
    profiling_ = true;
    points_ = 0;
    parts_ = 0;
    steps_.clear();
  }
  /// Returns the steps since start_profile; waits for them. With times of kernels, a part lasts as long as its kernels;
  /// the pauses between them are in no part. A wait for other ranks has no kernel.
  StepProfile finish_profile() {
    profiling_ = false;
    Base::synchronize();
    const auto kernels = Base::kernel_times(parts_);
    StepProfile profile;
    profile.source = kernels ? ProfileSource::cupti : ProfileSource::events;
    for (const auto& queued : std::exchange(steps_, {})) {
      auto& step = profile.steps.emplace_back();
      step.begin_ms = Base::milliseconds_between(steps_begin, queued.begin);
      step.ms = Base::milliseconds_between(queued.begin, queued.end);
      for (const auto& [name, part_class, point, number] : queued.parts) {
        const bool by_kernels = kernels && part_class != PartClass::communication;
        step.parts.push_back({name, part_class, Base::milliseconds_between(queued.begin, point),
                              by_kernels ? kernels->at(number) : Base::milliseconds_between(point, point + 1)});
      }
    }
    return profile;
  }

  void repeat(std::size_t which, const std::function<void()>& queue) {
    profiling_ ? queue() : Base::repeat(which, queue);
  }
  void mark(Mark mark) {
    Base::mark(mark);
    if (!profiling_) return;
    if (mark == Mark::begin) steps_.push_back({point(), 0, {}});
    if (mark == Mark::end) steps_.back().end = point();
  }

  void gemm(const auto& product) {
    if (!in_step()) return Base::gemm(product);
    timed(PartClass::gemm, name_of(product), [&] { Base::gemm(product); });
  }
  void quantize(auto&&... a) {
    timed(PartClass::pointwise, "quantize", [&] { Base::quantize(a...); });
  }
  void quantize_transposed(auto&&... a) {
    timed(PartClass::pointwise, "quantize transposed", [&] { Base::quantize_transposed(a...); });
  }
  void requantize(auto&&... a) {
    timed(PartClass::pointwise, "requantize", [&] { Base::requantize(a...); });
  }
  void requantize_transposed(auto&&... a) {
    timed(PartClass::pointwise, "requantize transposed", [&] { Base::requantize_transposed(a...); });
  }
  void set_bytes(auto&&... a) {
    timed(PartClass::pointwise, "clear", [&] { Base::set_bytes(a...); });
  }
  void copy(auto&&... a) {
    timed(PartClass::pointwise, "copy", [&] { Base::copy(a...); });
  }
  void embedding(auto&&... a) {
    timed(PartClass::pointwise, "embedding", [&] { Base::embedding(a...); });
  }
  void embedding_backward(auto&&... a) {
    timed(PartClass::pointwise, "embedding backward", [&] { Base::embedding_backward(a...); });
  }
  void norm(auto&&... a) {
    timed(PartClass::pointwise, "norm", [&] { Base::norm(a...); });
  }
  void norm_backward(auto&&... a) {
    timed(PartClass::pointwise, "norm backward", [&] { Base::norm_backward(a...); });
  }
  void sum_rows(auto&&... a) {
    timed(PartClass::pointwise, "sum of rows", [&] { Base::sum_rows(a...); });
  }
  void rope(auto&&... a) {
    timed(PartClass::pointwise, "rope", [&] { Base::rope(a...); });
  }
  void swiglu(auto&&... a) {
    timed(PartClass::pointwise, "swiglu", [&] { Base::swiglu(a...); });
  }
  void swiglu_backward(auto&&... a) {
    timed(PartClass::pointwise, "swiglu backward", [&] { Base::swiglu_backward(a...); });
  }
  void gelu(auto&&... a) {
    timed(PartClass::pointwise, "gelu", [&] { Base::gelu(a...); });
  }
  void gelu_backward(auto&&... a) {
    timed(PartClass::pointwise, "gelu backward", [&] { Base::gelu_backward(a...); });
  }
  void attention(auto&&... a) {
    timed(PartClass::attention, "attention", [&] { Base::attention(a...); });
  }
  void attention_backward(auto&&... a) {
    timed(PartClass::attention, "attention backward", [&] { Base::attention_backward(a...); });
  }
  void cross_entropy(auto&&... a) {
    timed(PartClass::loss, "cross entropy", [&] { Base::cross_entropy(a...); });
  }
  void add_sum(auto&&... a) {
    timed(PartClass::loss, "sum of losses", [&] { Base::add_sum(a...); });
  }
  void summarize(auto&&... a) {
    timed(PartClass::update, "summarize", [&] { Base::summarize(a...); });
  }
  void adamw(auto&&... a) {
    timed(PartClass::update, "adamw", [&] { Base::adamw(a...); });
  }
  void gather_tokens(auto&&... a) {
    timed(PartClass::communication, "gather tokens", [&] { Base::gather_tokens(a...); });
  }
  void scatter_tokens(auto&&... a) {
    timed(PartClass::communication, "scatter tokens", [&] { Base::scatter_tokens(a...); });
  }
  void sum_together(auto&&... a) {
    timed(PartClass::communication, "sum together", [&] { Base::sum_together(a...); });
  }
  void all_reduce(auto&&... a) {
    timed(PartClass::communication, "all reduce", [&] { Base::all_reduce(a...); });
  }
  std::size_t reduce_scatter(auto&&... a) {
    return timed(PartClass::communication, "reduce scatter", [&] { return Base::reduce_scatter(a...); });
  }
  std::size_t all_gather(auto&&... a) {
    return timed(PartClass::communication, "all gather", [&] { return Base::all_gather(a...); });
  }
  void meet() {
    timed(PartClass::communication, "meet", [&] { Base::meet(); });
  }
  void wait(std::size_t ticket) {
    timed(PartClass::communication, "wait", [&] { Base::wait(ticket); });
  }
  void join_reductions() {
    timed(PartClass::communication, "join", [&] { Base::join_reductions(); });
  }

 private:
  struct QueuedPart {
    std::string name;
    PartClass part_class;
    std::size_t point;   // the next point is its end
    std::size_t number;  // of the part
  };
  struct QueuedStep {
    std::size_t begin, end;  // points; an end of 0: the step is being queued
    std::vector<QueuedPart> parts;
  };
  static constexpr std::size_t steps_begin = 0;  // the first point of a profile

  bool in_step() const { return profiling_ && !steps_.empty() && steps_.back().end == 0; }

  std::size_t point() {
    Base::record_point(points_);
    return points_++;
  }

  void close_part() {
    Base::end_part();
    point();
  }

  template <class Queue>
  auto timed(PartClass part_class, std::string_view name, const Queue& queue) {
    if (!in_step()) return queue();
    const auto& part = steps_.back().parts.emplace_back(QueuedPart{std::string(name), part_class, point(), parts_++});
    Base::begin_part(part.name, part_class, part.number);
    if constexpr (std::is_void_v<decltype(queue())>) {
      queue();
      close_part();
    } else {
      const auto result = queue();
      close_part();
      return result;
    }
  }

  bool profiling_ = false;
  std::size_t points_ = 0, parts_ = 0;
  std::vector<QueuedStep> steps_;
};

}  // namespace shakedown::training
