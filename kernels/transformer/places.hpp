// Locations of the tensors of a step: the copy that products read, the gradient, the share of the state, and the
// projections composed of them.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/transformer/linear.hpp"

namespace shakedown::training {

template <TrainingOps Ops>
class Places {
 public:
  using Element = typename Ops::Element;
  using Master = typename Ops::Master;

  /// All arguments must outlive it.
  Places(const StepShape& shape, const FlatLayout& layout, const Buffers<Element, Master>& buffers)
      : shape_(shape), layout_(layout), buffers_(buffers), in_model_(offsets_in_model(layout.tensors)) {
    for (std::size_t l = 0; l < shape_.model.layers; ++l) {
      for (const auto linear : linears) projections_.push_back(projection(l, linear));
    }
  }

  const Projection<Ops>& linear(std::size_t l, Linear linear) const {
    return projections_[l * linears.size() + static_cast<std::size_t>(linear)];
  }

  /// Returns a gradient; null data if there is no such tensor.
  Matrix<Master> gradient(Owner owner, Kind kind, std::optional<std::size_t> layer = std::nullopt,
                          Module module = Module::q) const {
    const auto& tensors = layout_.tensors;
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const ParameterTensor& t) {
      return t.owner == owner && t.kind == kind && (!layer || t.layer == *layer) && t.module == module;
    });
    if (found == tensors.end()) return {};
    const auto inside = found->offset - layout_.units[found->unit].offset;
    return {buffers_.units[found->unit].gradient + inside, found->rows, found->cols, found->cols};
  }

  /// Returns the Element copy of a tensor, trained or not.
  Matrix<Element> copy(const ParameterTensor& t) const {
    const auto row = [&t](Element* data) { return Matrix<Element>{data, t.rows, t.cols, t.cols}; };
    const auto of_norm = [&](const NormWeights<Element>& norm) {
      return row(t.kind == Kind::bias ? norm.shift : norm.gain);
    };
    switch (t.owner) {
      case Owner::embedding: return buffers_.embedding;
      case Owner::positions: return buffers_.positions;
      case Owner::head: return t.kind == Kind::bias ? row(buffers_.head_bias) : buffers_.head;
      case Owner::final_norm: return of_norm(buffers_.final_norm);
      case Owner::norm1: return of_norm(buffers_.layers[t.layer].norm1);
      case Owner::norm2: return of_norm(buffers_.layers[t.layer].norm2);
      default: break;
    }
    const auto which = linear_of(t.owner);
    const auto& layer = buffers_.layers[t.layer];
    const auto& f = buffers_.of(which);
    const auto weights = layer.weights[static_cast<std::size_t>(which)];
    if (t.kind == Kind::weight) return weights.block(0, 0, f.out, f.in);
    if (t.kind == Kind::bias) return row(layer.biases[static_cast<std::size_t>(which)]);
    const auto& part =
        *std::find_if(f.parts.begin(), f.parts.end(), [&](const Part& p) { return p.module == t.module; });
    const auto& projection = linear(t.layer, which);
    return t.kind == Kind::b ? projection.b_of(part) : projection.a().row_range(part.u, shape_.lora.rank);
  }

  /// Returns the offset of a piece in this rank's arrays of the state.
  std::size_t own_offset(const Piece& piece) const {
    const auto u = layout_.tensors[piece.tensor].unit;
    const auto& place = buffers_.units[u];
    const auto rank = shape_.sharded() ? static_cast<std::size_t>(shape_.rank) : 0;
    return place.own_offset + (piece.first - layout_.units[u].offset - rank * place.own_count);
  }

  ParameterSlot<Element> slot(const Piece& piece) const {
    const auto& t = layout_.tensors[piece.tensor];
    if (shape_.trains == Trains::adapters) {
      return {t.offset, copy(t), t.kind == Kind::b ? shape_.lora.scale() : 1, t.decays()};
    }
    const auto& unit = buffers_.units[t.unit];
    const auto at = own_offset(piece), inside = at - unit.own_offset;
    const auto gradient = static_cast<std::size_t>(unit.own_gradient - buffers_.state.gradient) + inside;
    const auto position = in_model_[piece.tensor] + (piece.first - t.offset);
    return {at, {unit.own_weights + inside, 1, piece.count, piece.count}, 1, t.decays(), gradient - at, position};
  }

 private:
  Projection<Ops> projection(std::size_t l, Linear linear) const {
    const auto& layer = buffers_.layers[l];
    const auto& f = buffers_.of(linear);
    const auto at = static_cast<std::size_t>(linear);
    const auto of = [&](Kind kind, Module module = Module::q) {
      return gradient(training::owner(linear), kind, l, module);
    };
    typename Projection<Ops>::Gradients gradients{of(Kind::weight), {}, of(Kind::bias).data};
    for (const auto& part : f.parts) {
      if (!part.adapted) continue;
      if (part.u == 0) gradients.a = of(Kind::a, part.module);
      gradients.b[static_cast<std::size_t>(part.module)] = of(Kind::b, part.module);
    }
    gradients.a.rows = f.rank_total;  // the rows of all parts, which are adjacent
    return {
        shape_,           f,         layer.weights[at],
        layer.biases[at], gradients, {layer.quantized[at], layer.transposed[at], buffers_.quantized, buffers_.second}};
  }

  const StepShape& shape_;
  const FlatLayout& layout_;
  const Buffers<Element, Master>& buffers_;
  std::vector<std::size_t> in_model_;         // the offset of each tensor
  std::vector<Projection<Ops>> projections_;  // by layer and Linear
};

}  // namespace shakedown::training
