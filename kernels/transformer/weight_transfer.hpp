// Copies weights between the host and the memory of a step.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/transformer/step.hpp"
#include "kernels/transformer/trainer.hpp"

namespace shakedown::training {

template <TrainingOps Ops>
class WeightTransfer {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;

  /// All arguments must outlive it. Only for a rank that has the whole model.
  WeightTransfer(Ops& ops, TrainingStep<Ops>& step) : ops_(ops), step_(step) {}

  /// Sets all weights and adapters of a step, and restarts it.
  void set(const TensorValues& values) {
    const auto& shape = step_.shape();
    step_.initialize();
    if (shape.trains == Trains::adapters) {
      for (const auto& t : parameter_tensors(shape.model, no_adapters, Trains::all)) set_frozen(t, values);
    }
    for (const auto& piece : step_.pieces()) set_trained(piece, values);
    step_.restart();
  }

  /// Returns the values of a trained tensor. Waits.
  std::vector<float> values(const ParameterTensor& t) {
    std::vector<Master> own(t.size());
    ops_.copy_out(own.data(), step_.buffers().state.parameters + t.offset, own.size() * sizeof(Master));
    std::vector<float> all(own.size());
    std::transform(own.begin(), own.end(), all.begin(), [](Master value) { return static_cast<float>(value); });
    return all;
  }

 private:
  static constexpr std::size_t most_at_once = std::size_t{1} << 24;  // values, so that the host needs little memory

  /// Rows with room behind them are copied through the memory of the logits, which a step writes before it reads it.
  void set_frozen(const ParameterTensor& t, const TensorValues& values) {
    const auto to = step_.copy(t);
    const auto& logits = step_.buffers().logits;
    const bool is_direct = to.stride == to.cols;
    const auto room = is_direct ? most_at_once : std::min(most_at_once, logits.rows * logits.cols);
    if (room < t.cols) throw std::invalid_argument("a step with fewer logits than columns of a weight: raise batch");
    std::vector<float> read;
    std::vector<Element> rows;
    for (std::size_t row = 0; row < t.rows;) {
      const auto count = std::min(room / t.cols, t.rows - row);
      read.resize(count * t.cols);
      values(t, row * t.cols, read);
      rows.resize(read.size());
      std::transform(read.begin(), read.end(), rows.begin(), [](float value) { return Ops::to_element(value); });
      const auto part = to.row_range(row, count);
      Element* const at = is_direct ? part.data : logits.data;
      ops_.copy_in(at, rows.data(), rows.size() * sizeof(Element));
      if (!is_direct) ops_.copy(Matrix<Element>{at, count, t.cols, t.cols}, part);
      row += count;
    }
  }

  void set_trained(const Piece& piece, const TensorValues& values) {
    const auto& t = step_.tensors()[piece.tensor];
    Master* const to = step_.buffers().state.parameters + step_.own_offset(piece);
    std::vector<float> read;
    std::vector<Master> own;
    for (std::size_t at = 0; at < piece.count; at += read.size()) {
      read.resize(std::min(most_at_once, piece.count - at));
      values(t, piece.first - t.offset + at, read);
      own.assign(read.begin(), read.end());
      ops_.copy_in(to + at, own.data(), own.size() * sizeof(Master));
    }
  }

  Ops& ops_;
  TrainingStep<Ops>& step_;
};

}  // namespace shakedown::training
