// A training step on the host for tests: a two-layer model with ragged sizes, and weights so large that every part of
// the model affects the result.
#pragma once

#include <type_traits>
#include <vector>

#include "base/group.hpp"
#include "kernels/reference.hpp"
#include "kernels/short_floats.hpp"
#include "kernels/transformer/host/training_ops.hpp"
#include "kernels/transformer/step.hpp"

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

/// Returns the tokens of sequences first.. of a text that is the same everywhere.
inline Batch batch_of(const training::StepShape& shape, std::size_t first_sequence = 0) {
  Batch batch;
  for (std::size_t i = 0; i < shape.accumulation * shape.tokens(); ++i) {
    const auto at = reference::mix(first_sequence * shape.seq + i);
    batch.inputs.push_back(static_cast<int>(at % shape.model.vocab));
    batch.targets.push_back(static_cast<int>((at >> 32) % shape.model.vocab));
  }
  return batch;
}

/// The parts of GPT-2 at ragged sizes.
inline training::StepShape gpt2_shape() {
  auto shape = ragged_shape();
  auto& m = shape.model;
  m.kv_heads = m.heads;
  m.norm_eps = 1e-5;
  m.norm = training::Norm::layer;
  m.mlp = training::Mlp::gelu;
  m.positions = training::Positions::learned;
  m.context = 9;
  m.all_biases = m.tied = true;
  shape.lora = training::no_adapters;
  shape.trains = training::Trains::all;
  return shape;
}

/// The parts of the encoder: post-norm, no causal mask, an untied head with bias.
inline training::StepShape encoder_shape() {
  auto shape = gpt2_shape();
  shape.model.norm_place = training::NormPlace::behind;
  shape.model.causal = shape.model.tied = false;
  shape.model.head_bias = true;
  shape.retain = training::Retain::all;
  return shape;
}

/// The parts of Qwen2 and Llama, with all parameters trained: RMSNorm, SwiGLU, rotations, grouped heads.
inline training::StepShape qwen2_shape(std::size_t layers = 2) {
  auto shape = ragged_shape();
  shape.model.layers = layers;
  shape.lora = training::no_adapters;
  shape.trains = training::Trains::all;
  return shape;
}

/// Returns the value of a tensor element for the normal number `standard`: gains around 1, an embedding of size 1.
inline double lively(const training::ParameterTensor& t, double standard, double stddev) {
  if (t.is_norm() && t.kind == training::Kind::weight) return 1 + 0.3 * standard;
  return (t.owner == training::Owner::embedding ? 1 : stddev) * standard;
}

/// The tensors of a whole model, and the parts of them on a rank that may have only a part.
class WholeTensors {
 public:
  explicit WholeTensors(const training::StepShape& shape)
      : shape_(shape), tensors_(parameter_tensors(shape.model, shape.lora, shape.trains)) {}

  std::size_t count() const { return tensors_.back().end(); }
  std::size_t offset(std::size_t tensor) const { return tensors_[tensor].offset; }

  /// Calls value(i, tensor, element) for each value i of a piece, with the element of the whole tensor that it is.
  template <class Value>
  void each(const std::vector<training::ParameterTensor>& mine, const training::Piece& piece,
            const Value& value) const {
    const auto& t = mine[piece.tensor];
    const auto same = [&](const training::ParameterTensor& other) {
      return other.layer == t.layer && other.owner == t.owner && other.kind == t.kind && other.module == t.module;
    };
    const auto tensor =
        static_cast<std::size_t>(std::find_if(tensors_.begin(), tensors_.end(), same) - tensors_.begin());
    if (shape_.tensor == 1) {
      for (std::size_t i = 0; i < piece.count; ++i) value(i, tensor, piece.first - t.offset + i);
      return;
    }
    for (const auto& s : stretches(shape_.part(), t, shape_.tensor, shape_.tensor_rank)) {
      for (std::size_t i = 0; i < s.count; ++i) {
        const auto at = t.offset + s.begin + i;
        if (at >= piece.first && at < piece.first + piece.count) value(at - piece.first, tensor, s.whole(i));
      }
    }
  }

 private:
  const training::StepShape& shape_;
  std::vector<training::ParameterTensor> tensors_;
};

/// Sets a piece of the trained parameters, in f32 or in bf16.
template <class Ops>
void set_parameters(training::TrainingStep<Ops>& step, Ops& ops, const training::Piece& piece,
                    const std::vector<typename Ops::Master>& values) {
  step.with_state([&](const auto& state) {
    std::vector<std::remove_cvref_t<decltype(*state.parameters)>> own;
    for (const auto value : values) own.emplace_back(value);
    ops.copy_in(state.parameters + step.own_offset(piece), own.data(), own.size() * sizeof(own[0]));
  });
}

/// Sets random weights with this standard deviation, norms around 1, and adapters. Frozen tensors have the numbers from
/// 1000 on, in the order that tests/peers/golden_lora_step.py uses, and all adapters share one number. Trained tensor i
/// of the flat array has the number 1000 + i.
template <class Ops>
void set_lively_weights(training::TrainingStep<Ops>& step, Ops& ops, double stddev) {
  step.initialize();
  auto& buffers = step.buffers();
  const auto& m = step.shape().model;
  std::uint64_t number = 1000;
  if (step.shape().trains == training::Trains::all) {
    const WholeTensors whole(step.shape());
    for (const auto& piece : step.pieces()) {
      const auto& t = step.tensors()[piece.tensor];
      std::vector<typename Ops::Master> values(piece.count);
      const bool in_bf16 = step.shape().in_bf16();
      whole.each(step.tensors(), piece, [&](std::size_t i, std::size_t tensor, std::size_t element) {
        const auto at = ((number + tensor) << 32) + element;
        const double value = lively(t, reference::normal(at, 0), stddev);
        values[i] = static_cast<typename Ops::Master>(in_bf16 ? from_bf16(to_bf16(static_cast<float>(value))) : value);
      });
      set_parameters(step, ops, piece, values);
    }
    return step.restart();
  }
  const auto fill = [&](training::Matrix<typename Ops::Element> matrix, double sigma) {
    ops.fill_normal(matrix, sigma, number++);
  };
  const auto fill_vector = [&](typename Ops::Element* weight, double mean) {
    if (weight == nullptr) return;
    std::vector<typename Ops::Element> values(m.hidden);
    for (std::size_t i = 0; i < m.hidden; ++i) {
      values[i] = Ops::to_element(mean + 0.3 * reference::normal((number << 32) + i, 1));
    }
    ++number;
    ops.copy_in(weight, values.data(), values.size() * sizeof(values[0]));
  };
  const auto fill_norm = [&](const training::NormWeights<typename Ops::Element>& norm) {
    fill_vector(norm.gain, 1);
    fill_vector(norm.shift, 0);
  };
  fill(buffers.embedding, 1);
  if (buffers.positions) fill(buffers.positions, 1);
  if (!m.tied) fill(buffers.head, stddev);
  fill_norm(buffers.final_norm);
  for (auto& layer : buffers.layers) {
    fill_norm(layer.norm1);
    fill_norm(layer.norm2);
    for (const auto linear : training::linears) {
      const auto& f = buffers.of(linear);
      if (f.bias) fill({layer.biases[static_cast<std::size_t>(linear)], 1, f.out, f.out}, stddev);
    }
    for (const auto linear : training::linears) {
      const auto& f = buffers.of(linear);
      fill(layer.weights[static_cast<std::size_t>(linear)].block(0, 0, f.out, f.in), stddev);
    }
  }
  ops.fill_normal(buffers.state.parameters, buffers.state.count, stddev, number++);
  step.restart();
}

/// Returns settings that do not change the parameters, for tests of gradients.
inline training::AdamW no_update() { return {.lr = 0, .weight_decay = 0}; }

template <class T>
struct HostStep {
  explicit HostStep(const training::StepShape& shape, int threads = 2, Group* others = nullptr)
      : group(others != nullptr ? *others : lone),
        together(shape.tensor > 1 ? group.split(group.rank() / shape.tensor, group.rank()) : nullptr),
        of_my_part(shape.tensor > 1 ? group.split(group.rank() % shape.tensor, group.rank()) : nullptr),
        replicas(of_my_part ? *of_my_part : group),
        team(threads),
        ops(team),
        step(ops, shape) {
    ops.connect(replicas, together.get());
    set_lively_weights(step, ops, 0.3);
    load(batch_of(shape));
  }

  void load(const Batch& batch) { step.load(batch.inputs, batch.targets); }

  /// Return the loss and the gradient for the current parameters.
  double loss() {
    step.restart();
    step.run(no_update());
    return step.records().front().loss;
  }
  std::vector<T> gradient() {
    loss();
    return summed_gradient();
  }
  /// Returns the gradient of the last step, summed over all ranks if they share it, in the tensor order of the whole
  /// model.
  std::vector<T> summed_gradient() {
    return whole([this](const training::Piece& piece) {
      const auto& unit = step.buffers().units[step.tensors()[piece.tensor].unit];
      return unit.own_gradient + (step.own_offset(piece) - unit.own_offset);
    });
  }
  std::vector<T> parameters() {
    return whole([this](const auto& piece) {
      const T* values = nullptr;
      step.with_state([&](const auto& state) { values = state.parameters + step.own_offset(piece); });
      return values;
    });
  }
  template <class Own>
  std::vector<T> whole(const Own& own) {
    const auto& shape = step.shape();
    const WholeTensors tensors(shape);
    std::vector<T> all(tensors.count());
    const bool shared = shape.shares() > 1 || shape.tensor > 1;
    for (const auto& piece : step.pieces()) {
      // Values that several ranks have count once.
      if (shape.tensor_rank > 0 && step.tensors()[piece.tensor].replicated()) continue;
      if (shared && shape.shares() == 1 && replicas.rank() > 0) continue;
      const T* const values = own(piece);
      tensors.each(step.tensors(), piece, [&](std::size_t i, std::size_t tensor, std::size_t element) {
        all[tensors.offset(tensor) + element] = values[i];
      });
    }
    if (shared) group.sum(std::span<const T>(all), std::span<T>(all));
    return all;
  }

  Alone lone;
  Group& group;
  std::unique_ptr<Group> together, of_my_part;  // ranks that share the model with this one; ranks with the same part
  Group& replicas;                              // ranks with the same data as this one
  host::Team team;
  host::HostOps<T> ops;
  training::TrainingStep<host::HostOps<T>> step;
};

}  // namespace shakedown
