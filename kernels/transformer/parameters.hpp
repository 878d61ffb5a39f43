// The trainable parameters of a model as one flat array. Every tensor is an interval of it, in the order in which the
// backward pass completes the gradients. The complete gradients are therefore always a prefix; sums over ranks, updates
// and checkpoints work on intervals. Pure functions.
#pragma once

#include <stdexcept>
#include <string>

#include "kernels/transformer/shape.hpp"

namespace shakedown::training {

/// Maps element i of a part to its index in a larger array: first + i / cols stride + i mod cols.
struct Numbers {
  std::size_t first = 0, cols = 1, stride = 1;
  constexpr std::size_t operator()(std::size_t i) const { return first + i / cols * stride + i % cols; }
};

/// The part of the model that a tensor belongs to.
enum class Owner { embedding, positions, norm1, qkv, o, norm2, gate_up, down, final_norm, head };
constexpr auto words(Owner) {
  return names("embedding", "positions", "norm1", "qkv", "o", "norm2", "gate_up", "down", "final_norm", "head");
}
constexpr Owner owner(Linear linear) {
  constexpr std::array owners = {Owner::qkv, Owner::o, Owner::gate_up, Owner::down};
  return owners[static_cast<std::size_t>(linear)];
}
/// Returns the projection. Errors: std::logic_error if the owner is not a projection.
constexpr Linear linear_of(Owner of) {
  for (const auto linear : linears) {
    if (owner(linear) == of) return linear;
  }
  throw std::logic_error("a tensor of no projection");
}

/// The kind of a tensor. For a norm, `weight` is its gain and `bias` its shift.
enum class Kind { weight, bias, a, b };
constexpr auto words(Kind) { return names("weight", "bias", "A", "B"); }

struct ParameterTensor {
  std::size_t layer;  // 0 for tensors before the layers; the number of layers for tensors after them
  Owner owner;
  Kind kind;
  Module module;  // for an adapter
  std::size_t rows, cols;
  std::size_t offset;
  std::size_t unit;  // see FlatLayout
  std::size_t size() const { return rows * cols; }
  std::size_t end() const { return offset + size(); }
  bool is_norm() const { return owner == Owner::norm1 || owner == Owner::norm2 || owner == Owner::final_norm; }
  /// True if weight decay applies: for matrices, not for biases and norms (as in the training of GPT-3, Brown et al.
  /// 2020, and later models).
  bool decays() const { return kind != Kind::bias && !is_norm(); }
  /// True if all ranks of a tensor parallel group (part_of) have the whole tensor, because it has no heads, MLP columns
  /// or tokens to divide.
  bool replicated() const {
    return is_norm() || owner == Owner::positions ||
           (kind == Kind::bias && (owner == Owner::o || owner == Owner::down));
  }
};

/// "layer 1 gate B", "layer 0 qkv bias", "head weight"
std::string text(const ParameterTensor&);

/// Returns the tensors, from the head and the last layer to the first layer and the embedding. The order in a layer is
/// norm 2, down, gate and up, o, then q, k and v; norm 1 follows where the backward pass reaches it. Adapters: in each
/// projection all B, then all A. The A of its adapted parts are adjacent and form one matrix.
std::vector<ParameterTensor> parameter_tensors(const TransformerShape&, const LoraShape&, Trains = Trains::adapters);

/// The interval that is gathered, summed over ranks and updated at a time if ranks share the state of a model. The
/// interval is divided into equal shares; the last share is padded.
struct Unit {
  std::size_t offset, used, size;
  std::size_t end() const { return offset + size; }
};

struct FlatLayout {
  std::vector<ParameterTensor> tensors;
  std::vector<Unit> units;  // the head and the final norm, the layers from last to first, the embeddings; then
                            // replicated parameters, if they are a separate unit
  std::size_t count() const { return units.back().end(); }
};

/// Returns the layout of parameter_tensors; each unit has a multiple of `multiple` values. `apart`: replicated tensors
/// form a separate unit at the end, because their gradients are complete only after other ranks have added theirs.
FlatLayout flat_layout(const TransformerShape&, const LoraShape&, Trains, std::size_t multiple = 1, bool apart = false);

/// A range of a rank's part of a tensor: `count` values from `begin` on. `whole` gives their positions in the whole
/// tensor.
struct Stretch {
  Module module;  // for a projection
  std::size_t begin, count;
  Numbers whole;
  std::size_t of_module;  // beginning of that module in the whole tensor
};
/// Returns the ranges of a tensor in one rank's part of a model. A projection is divided by its outputs, module by
/// module; one that adds to the residual stream is divided by its inputs. The embedding and the head are divided by
/// tokens.
std::vector<Stretch> stretches(const TransformerShape& part, const ParameterTensor&, int ranks, int rank);

/// Returns the offset of each tensor in the model: the sequence of its tensors, without the padding of shares.
std::vector<std::size_t> offsets_in_model(const std::vector<ParameterTensor>&);

/// A range of values of one tensor.
struct Piece {
  std::size_t tensor, first, count;  // `first` is an offset in the flat array
};
/// Returns the pieces of the flat array on rank `rank` of `ranks`, which are its share of each unit.
std::vector<Piece> pieces(const FlatLayout&, int ranks, int rank);

/// Returns the number of values in the prefix that is complete when the backward pass reaches the attention of a layer.
/// The prefix excludes the layers below, the projection before the attention, and the norm that feeds it.
std::size_t complete_before_attention(const std::vector<ParameterTensor>&, const TransformerShape&, std::size_t layer);

}  // namespace shakedown::training
