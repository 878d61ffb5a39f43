// Tile products of the host backend: every worker thread computes and compares the same products.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/host/host_device.hpp"
#include "kernels/ops/sm.hpp"
#include "kernels/sm_report.hpp"
#include "kernels/tile_product.hpp"

namespace shakedown::host {

/// Returns numbers as they were computed. Tests replace it by classes that simulate a faulty worker.
struct SoundWorker {
  static float computed(float exact, std::size_t /*worker*/, unsigned long long /*product*/, std::size_t /*word*/) {
    return exact;
  }
};

template <class Worker>
class TileProducts final : public Work {
 public:
  TileProducts(const TileProductSpec& spec, Team& team)
      : spec_(spec), shape_{spec.m, spec.n, spec.k, 32}, team_(team), records_(static_cast<std::size_t>(team.size())) {
    for (int tile = 0; tile < TileShape::slabs; ++tile) {
      expected_.push_back(expected_tile(shape_, tile));
      std::vector<float> slab;
      for (int row = 0; row < shape_.rows(); ++row) {
        for (int k = 0; k < shape_.depth; ++k) slab.push_back(static_cast<float>(tile_element(tile, row, k)));
      }
      slabs_.push_back(std::move(slab));
    }
  }

  void enqueue() override {
    const auto first = announced_;
    announced_ += static_cast<unsigned long long>(spec_.products);
    team_.run([this, first](int member) {
      const auto worker = static_cast<std::size_t>(member);
      for (auto product = first; product < first + static_cast<unsigned long long>(spec_.products); ++product) {
        compare(worker, product);
      }
    });
  }

  void reset() override {
    announced_ = 0;
    std::ranges::fill(records_, SmRecord{});
  }

  Check verify() override {
    return check_of(records_, records_.size(), announced_,
                    {"worker", "tile products", [this](const SmRecord& record) {
                       return "tile " + std::to_string(record.product) + ", row " +
                              std::to_string(record.word / static_cast<unsigned>(spec_.n)) + ", column " +
                              std::to_string(record.word % static_cast<unsigned>(spec_.n)) + ": " +
                              std::to_string(static_cast<long long>(record.got)) + ", expected " +
                              std::to_string(static_cast<long long>(record.expected));
                     }});
  }

  Cost cost() const override {
    auto cost = shakedown::cost(spec_);
    cost.flops *= static_cast<double>(records_.size());
    return cost;
  }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }
  Metrics metrics() override { return metrics_of(records_, records_.size(), announced_); }
  void corrupt() override { expected_.front().front() += 1, enqueue(); }

 private:
  void compare(std::size_t worker, unsigned long long product) {
    const auto tile = static_cast<std::size_t>((product + worker) % TileShape::slabs);
    const auto sums = multiply(static_cast<int>(tile));
    auto& record = records_[worker];
    bool wrong = false;
    for (std::size_t word = 0; word < sums.size(); ++word) {
      const float got = Worker::computed(sums[word], worker, product, word), want = expected_[tile][word];
      if (got == want) continue;
      wrong = true;
      ++record.wrong_words;
      if (std::exchange(record.has_first, 1U) == 1) continue;
      record.product = static_cast<unsigned>(tile);
      record.word = static_cast<unsigned>(word);
      record.got = static_cast<unsigned long long>(static_cast<long long>(got));
      record.expected = static_cast<unsigned long long>(static_cast<long long>(want));
    }
    ++record.products;
    record.wrong_products += wrong ? 1 : 0;
  }

  /// Multiplies each chunk of A by each chunk of B.
  std::vector<float> multiply(int tile) const {
    const auto m = static_cast<std::size_t>(shape_.m), n = static_cast<std::size_t>(shape_.n),
               depth = static_cast<std::size_t>(shape_.depth);
    std::vector<float> sums(m * n);
    for (int part = 0; part < shape_.slabs_of_tile(); ++part) {
      const auto& slab = slabs_[static_cast<std::size_t>(shape_.slab_of(tile, part))];
      for (std::size_t word = 0; word < sums.size(); ++word) {
        const float* const a = &slab[word / n * depth];
        const float* const b = &slab[(m + word % n) * depth];
        for (std::size_t c = 0; c < depth; c += TileShape::chunk) {
          for (std::size_t k = 0; k < depth; ++k) sums[word] += a[c + k % TileShape::chunk] * b[k];
        }
      }
    }
    return sums;
  }

  const TileProductSpec spec_;
  const TileShape shape_;
  Team& team_;
  std::vector<std::vector<float>> slabs_, expected_;
  std::vector<SmRecord> records_;
  unsigned long long announced_ = 0;
};

}  // namespace shakedown::host
