// Several Works at the same time, as one Work. Each part repeats its operation so often that all parts take about the
// same time while they run together.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"

namespace shakedown {

/// One of the Works. `figure` is the metric of its rate: `unit` per second of what one operation does.
struct BurnPart {
  std::string called, figure;
  double amount;  // of one operation, in the unit of the figure
  std::unique_ptr<Work> work;
  int count = 1;  // operations of the part in one operation of the whole
};

/// `Together` runs the parts of one backend at the same time:
///   void record(std::size_t part, const std::function<void()>& queue)   keeps what the part queues on the device's
///   stream void launch()                                                       queues all parts, each once void wait()
///   waits until they are complete double seconds(std::size_t part) const                              returns the
///   seconds of the part in the last launch
template <class Together>
class Burn final : public Work {
 public:
  Burn(std::vector<BurnPart> parts, std::unique_ptr<Together> together)
      : parts_(std::move(parts)), together_(std::move(together)), seconds_(parts_.size()) {}

  /// Connects the parts, and chooses how often each repeats: first by its time alone, then by its time among the
  /// others.
  void connect(Group& group) override {
    connect_parts(group);
    for (int round = 0; round < balancing_rounds; ++round) {
      stage(1);
      group.barrier();
      together_->launch();
      together_->wait();
      std::vector<int> counts;
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        const double each = std::max(together_->seconds(i), shortest) / parts_[i].count;
        counts.push_back(static_cast<int>(std::clamp(std::round(whole / each), 1.0, most_repeated)));
      }
      group.broadcast(std::as_writable_bytes(std::span(counts)), 0);
      for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].count = counts[i];
    }
  }

  void enqueue() override {
    together_->launch();
    ++launches_;
  }

  /// Poisons the outputs of the parts. Each repetition of the whole overwrites those of the one before.
  void stage(int) override {
    collect();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      auto& part = parts_[i];
      part.work->stage(part.count);
      together_->record(i, [&part] { part.work->enqueue_batch(part.count); });
    }
  }

  void reset() override {
    collect();
    for (const auto& part : parts_) part.work->reset();
    seconds_.assign(parts_.size(), 0);
    timed_ = 0;
  }

  Check verify() override {
    Check all;
    for (const auto& part : parts_) {
      const auto check = part.work->verify();
      all.compared += check.compared;
      all.mismatched += check.mismatched;
      if (all.first.empty() && !check.first.empty()) all.first = part.called + ": " + check.first;
    }
    return all;
  }

  std::optional<std::uint64_t> digest() const override {
    constexpr std::uint64_t odd_factor = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    std::optional<std::uint64_t> all;
    for (const auto& part : parts_) {
      if (const auto digest = part.work->digest()) all = (all.value_or(0) ^ *digest) * odd_factor;
    }
    return all;
  }

  Cost cost() const override {
    const auto& products = parts_.front();
    return {products.work->cost().flops * products.count, 0};
  }
  std::size_t bytes() const override {
    std::size_t all = 0;
    for (const auto& part : parts_) all += part.work->bytes();
    return all;
  }
  bool collective() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part.work->collective(); });
  }
  void corrupt() override { parts_.front().work->corrupt(); }

  /// Returns the rate of each part while all ran, and the checksum of the products.
  Metrics metrics() override {
    collect();
    Metrics all;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto& part = parts_[i];
      if (seconds_[i] > 0) all.emplace_back(part.figure, part.amount * part.count * timed_ / seconds_[i]);
    }
    for (auto& metric : parts_.front().work->metrics()) {
      if (metric.first == "checksum") all.push_back(std::move(metric));
    }
    return all;
  }

 private:
  /// The power limit and the regulation of voltage take effect within some 10 ms.
  static constexpr double whole = 0.05, shortest = 1e-7;
  static constexpr int balancing_rounds = 3;
  static constexpr double most_repeated = 1000;  // a Trail has places for more

  /// All ranks make all collective calls, and then agree on whether each part can run.
  void connect_parts(Group& group) {
    std::string why;
    for (const auto& part : parts_) {
      try {
        part.work->connect(group);
      } catch (const Unsupported& error) {
        if (why.empty()) why = part.called + ": " + error.what();
      }
    }
    if (!group.all(why.empty())) throw Unsupported(why.empty() ? "another rank cannot run it" : why);
    for (const auto& part : parts_) part.work->reset();
  }

  /// Adds up the times of the last launch, which is complete.
  void collect() {
    if (launches_ == 0) return;
    together_->wait();
    for (std::size_t i = 0; i < parts_.size(); ++i) seconds_[i] += together_->seconds(i);
    ++timed_;
    launches_ = 0;
  }

  std::vector<BurnPart> parts_;
  std::unique_ptr<Together> together_;  // destroyed before the Works whose operations it keeps
  std::vector<double> seconds_;         // by part, of `timed_` launches
  double timed_ = 0;
  int launches_ = 0;  // since the times were added up
};

/// Makes the parts with `prepare`, which makes the Work of a spec. The products come first.
template <class Spec, class Prepare>
std::vector<BurnPart> burn_parts(const Spec& spec, const Prepare& prepare) {
  const auto add = [&](std::vector<BurnPart>& parts, std::string called, std::string figure, double amount,
                       const auto& of_part) {
    parts.push_back({std::move(called), std::move(figure), amount, prepare(of_part)});
  };
  std::vector<BurnPart> parts;
  add(parts, "products", "gemm_tflops", cost(spec.gemm).flops / 1e12, spec.gemm);
  if (const auto copy = peer_copy_of(spec)) {
    add(parts, "copies", "copy_gb_per_s", cost(*copy).bytes / 1e9, *copy);
  } else {
    add(parts, "copies", "hbm_gb_per_s", cost(own_copy_of(spec)).bytes / 1e9, own_copy_of(spec));
  }
  if (const auto sum = sum_of(spec)) {
    const double factor = bus_factor(sum->op, sum->ranks);
    add(parts, "sums", "busbw_gb_per_s", static_cast<double>(sum->bytes) * factor / 1e9, *sum);
  }
  return parts;
}

}  // namespace shakedown
