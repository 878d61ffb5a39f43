// The trainable parameters of a model as one flat array: every tensor is an interval of it, in the order in which the
// backward pass completes the gradients. So what is complete is always a prefix, and what is summed over ranks, updated
// or written down is an interval. Pure.
#pragma once

#include <stdexcept>
#include <string>

#include "kernels/transformer/shape.hpp"

namespace shakedown::training {

/// Element i of some that were taken from a larger array stands there at first + i / cols stride + i mod cols.
struct Numbers {
  std::size_t first = 0, cols = 1, stride = 1;
  constexpr std::size_t operator()(std::size_t i) const { return first + i / cols * stride + i % cols; }
};

/// What a tensor belongs to.
enum class Owner { embedding, positions, norm1, qkv, o, norm2, gate_up, down, final_norm, head };
constexpr auto words(Owner) {
  return names("embedding", "positions", "norm1", "qkv", "o", "norm2", "gate_up", "down", "final_norm", "head");
}
constexpr Owner owner(Linear linear) {
  constexpr std::array owners = {Owner::qkv, Owner::o, Owner::gate_up, Owner::down};
  return owners[static_cast<std::size_t>(linear)];
}
/// Errors: std::logic_error for what is no projection.
constexpr Linear linear_of(Owner of) {
  for (const auto linear : linears) {
    if (owner(linear) == of) return linear;
  }
  throw std::logic_error("a tensor of no projection");
}

/// Which of its tensors. Of a norm `weight` is what it multiplies with and `bias` what it adds.
enum class Kind { weight, bias, a, b };
constexpr auto words(Kind) { return names("weight", "bias", "A", "B"); }

struct ParameterTensor {
  std::size_t layer;  // 0 for what stands before the layers, their number for what stands behind them
  Owner owner;
  Kind kind;
  Module module;  // of an adapter
  std::size_t rows, cols;
  std::size_t offset;
  std::size_t unit;  // see FlatLayout
  std::size_t size() const { return rows * cols; }
  std::size_t end() const { return offset + size(); }
  bool is_norm() const { return owner == Owner::norm1 || owner == Owner::norm2 || owner == Owner::final_norm; }
  /// Weight decay is for matrices: not for biases and norms (as in the training of GPT-3, Brown et al. 2020, and
  /// since).
  bool decays() const { return kind != Kind::bias && !is_norm(); }
  /// Ranks that compute a model together (part_of) all have the whole of it: what has no heads, columns of the MLP or
  /// tokens to be cut by.
  bool replicated() const {
    return is_norm() || owner == Owner::positions ||
           (kind == Kind::bias && (owner == Owner::o || owner == Owner::down));
  }
};

/// "layer 1 gate B", "layer 0 qkv bias", "head weight"
std::string text(const ParameterTensor&);

/// From the head and the last layer to the first one and the embedding; in a layer norm 2, down, gate and up, o, then
/// q, k and v, and norm 1 where the backward pass comes to it. Of adapters in each projection all B, then all A: A of
/// its adapted parts follow each other, so that they are one matrix.
std::vector<ParameterTensor> parameter_tensors(const TransformerShape&, const LoraShape&, Trains = Trains::adapters);

/// What is gathered, summed over ranks and updated at a time where ranks share the state of a model: an interval that
/// they cut into equal shares, the last of them filled up.
struct Unit {
  std::size_t offset, used, size;
  std::size_t end() const { return offset + size; }
};

struct FlatLayout {
  std::vector<ParameterTensor> tensors;
  std::vector<Unit> units;  // the head and the final norm, the layers from the last to the first, the embeddings; then
                            // what is replicated, if it stands apart
  std::size_t count() const { return units.back().end(); }
};

/// As parameter_tensors; each unit takes a multiple of `multiple` values. `apart`: what is replicated is a unit of its
/// own at the end, because its gradients are complete when other ranks have added theirs.
FlatLayout flat_layout(const TransformerShape&, const LoraShape&, Trains, std::size_t multiple = 1, bool apart = false);

/// Some values of a rank's part of a tensor: i of them, from `begin` on, stand in the whole tensor at `first` and
/// behind.
struct Stretch {
  Module module;  // of a projection
  std::size_t begin, count;
  Numbers whole;
  std::size_t of_module;  // where that module begins in the whole tensor
};
/// Of a tensor of a model's part, which is that of one of several ranks. They cut a projection by its outputs, module
/// by module, and those that add to the residual stream by their inputs; the embedding and the head by their tokens.
std::vector<Stretch> stretches(const TransformerShape& part, const ParameterTensor&, int ranks, int rank);

/// Some values of one tensor.
struct Piece {
  std::size_t tensor, first, count;  // `first` is an offset in the flat array
};
/// What rank `rank` of `ranks` has of the flat array: of each unit its share.
std::vector<Piece> pieces(const FlatLayout&, int ranks, int rank);

/// Of so many values is the prefix that is complete when the backward pass comes to the attention of a layer: all but
/// those of the layers below, of the projection before the attention, and of what feeds that.
std::size_t complete_before_attention(const std::vector<ParameterTensor>&, const TransformerShape&, std::size_t layer);

}  // namespace shakedown::training
