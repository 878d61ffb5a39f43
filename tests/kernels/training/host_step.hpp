// A training step on the host for tests: a two-layer model whose sizes divide nothing, and weights so large that every
// part of the model bends the result.
#pragma once

#include <vector>

#include "base/group.hpp"
#include "kernels/host/lora_ops.hpp"
#include "kernels/reference.hpp"
#include "kernels/training/step.hpp"

namespace shakedown {

inline training::StepShape ragged_shape() {
  return {.model = {.layers = 2,
                    .hidden = 32,
                    .heads = 4,
                    .kv_heads = 2,
                    .head_dim = 8,
                    .intermediate = 48,
                    .vocab = 61,
                    .rope_theta = 100},
          .lora = {4, 6},
          .batch = 2,
          .seq = 7,
          .loss_chunk = 5,
          .bucket = 1000};
}

struct Batch {
  std::vector<int> inputs, targets;
};

/// Tokens of sequences first.. of a text that everybody agrees on.
inline Batch batch_of(const training::StepShape& shape, std::size_t first_sequence = 0) {
  Batch batch;
  for (std::size_t i = 0; i < shape.accumulation * shape.tokens(); ++i) {
    const auto at = reference::mix(first_sequence * shape.seq + i);
    batch.inputs.push_back(static_cast<int>(at % shape.model.vocab));
    batch.targets.push_back(static_cast<int>((at >> 32) % shape.model.vocab));
  }
  return batch;
}

/// Random weights of this standard deviation, norms around 1, and adapters.
template <class Ops>
void set_lively_weights(training::LoraStep<Ops>& step, Ops& ops, double stddev) {
  using training::Module;
  step.initialize();
  auto& buffers = step.buffers();
  const auto& m = step.shape().model;
  std::uint64_t number = 1000;
  const auto fill = [&](training::Matrix<typename Ops::Element> matrix, double sigma) {
    ops.fill_normal(matrix, sigma, number++);
  };
  const auto fill_norm = [&](typename Ops::Element* weight) {
    std::vector<typename Ops::Element> values(m.hidden);
    for (std::size_t i = 0; i < m.hidden; ++i) {
      values[i] = Ops::to_element(1 + 0.3 * reference::normal((number << 32) + i, 1));
    }
    ++number;
    ops.copy_in(weight, values.data(), values.size() * sizeof(values[0]));
  };
  fill(buffers.embedding, 1);
  fill(buffers.head, stddev);
  fill_norm(buffers.final_norm);
  for (auto& layer : buffers.layers) {
    fill_norm(layer.norm1);
    fill_norm(layer.norm2);
    fill({layer.qkv_bias, 1, m.qkv_width(), m.qkv_width()}, stddev);
    for (const auto linear : training::linears) {
      const auto& f = buffers.of(linear);
      const auto weights = linear == training::Linear::qkv       ? layer.qkv
                           : linear == training::Linear::o       ? layer.o
                           : linear == training::Linear::gate_up ? layer.gate_up
                                                                 : layer.down;
      fill(weights.block(0, 0, f.out, f.in), stddev);
    }
  }
  ops.fill_normal(buffers.state.parameters, buffers.state.count, stddev, number++);
  step.restart();
}

/// The settings that leave the parameters alone: for looking at gradients.
inline training::AdamW no_update() { return {.lr = 0, .weight_decay = 0}; }

template <class T>
struct HostStep {
  explicit HostStep(const training::StepShape& shape, int threads = 2, Group* group = nullptr)
      : team(threads), ops(team), step(ops, shape) {
    ops.connect(group != nullptr ? *group : lone);
    set_lively_weights(step, ops, 0.3);
    load(batch_of(shape));
  }

  void load(const Batch& batch) { step.load(batch.inputs, batch.targets); }

  /// Loss and gradient of the parameters as they are.
  double loss() {
    step.restart();
    step.run(no_update());
    return step.records().front().loss;
  }
  std::vector<T> gradient() {
    loss();
    const auto& state = step.buffers().state;
    return {state.gradient, state.gradient + state.count};
  }
  std::vector<T> parameters() {
    const auto& state = step.buffers().state;
    return {state.parameters, state.parameters + state.count};
  }

  Alone lone;
  host::Team team;
  host::LoraOps<T> ops;
  training::LoraStep<host::LoraOps<T>> step;
};

}  // namespace shakedown
