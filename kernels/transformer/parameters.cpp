#include "kernels/transformer/parameters.hpp"

#include <algorithm>
#include <utility>

namespace shakedown::training {

namespace {

class Layout {
 public:
  Layout(const TransformerShape& model, const LoraShape& lora, Trains trains, std::size_t multiple, bool apart)
      : model_(model), lora_(lora), all_(trains == Trains::all), apart_(apart), multiple_(multiple) {}

  FlatLayout make() {
    if (all_) add_head();
    close_unit();
    for (layer_ = model_.layers; layer_-- > 0;) {
      add_layer();
      close_unit();
    }
    layer_ = 0;
    if (all_ && model_.positions == Positions::learned) {
      add(Owner::positions, Kind::weight, model_.context, model_.hidden);
    }
    if (all_) add(Owner::embedding, Kind::weight, model_.vocab, model_.hidden);
    close_unit();
    if (!apart_) return std::move(made_);
    for (const auto& t : later_) take(t);
    close_unit();
    return std::move(made_);
  }

 private:
  void add(Owner owner, Kind kind, std::size_t rows, std::size_t cols, Module module = Module::q) {
    const ParameterTensor tensor{layer_, owner, kind, module, rows, cols, 0, 0};
    apart_&& tensor.replicated() ? later_.push_back(tensor) : take(tensor);
  }

  void take(ParameterTensor tensor) {
    tensor.offset = next_;
    tensor.unit = made_.units.size();
    next_ = tensor.end();
    made_.tensors.push_back(tensor);
  }

  void close_unit() {
    const auto offset = made_.units.empty() ? 0 : made_.count(), used = next_ - offset;
    made_.units.push_back({offset, used, (used + multiple_ - 1) / multiple_ * multiple_});
    next_ = made_.count();
  }

  void add_norm(Owner owner) {
    if (!all_) return;
    add(owner, Kind::weight, 1, model_.hidden);
    if (model_.norm == Norm::layer) add(owner, Kind::bias, 1, model_.hidden);
  }

  void add_head() {
    layer_ = model_.layers;
    if (!model_.tied) add(Owner::head, Kind::weight, model_.vocab, model_.hidden);
    if (model_.head_bias) add(Owner::head, Kind::bias, 1, model_.vocab);
    if (model_.norms_before()) add_norm(Owner::final_norm);
  }

  void add_layer() {
    add_norm(Owner::norm2);
    add_linear(Linear::down);
    add_linear(Linear::gate_up);
    if (!model_.norms_before()) add_norm(Owner::norm1);
    add_linear(Linear::o);
    add_linear(Linear::qkv);
    if (model_.norms_before()) add_norm(Owner::norm1);
  }

  void add_linear(Linear linear) {
    const auto shape = fused(model_, lora_, linear);
    if (all_) {
      add(owner(linear), Kind::weight, shape.out, shape.in);
      if (shape.bias) add(owner(linear), Kind::bias, 1, shape.out);
      return;
    }
    for (const auto& part : shape.parts) {
      if (part.adapted) add(owner(linear), Kind::b, part.rows, lora_.rank, part.module);
    }
    for (const auto& part : shape.parts) {
      if (part.adapted) add(owner(linear), Kind::a, lora_.rank, shape.in, part.module);
    }
  }

  const TransformerShape& model_;
  const LoraShape& lora_;
  bool all_, apart_;
  std::size_t multiple_, layer_ = 0, next_ = 0;
  FlatLayout made_;
  std::vector<ParameterTensor> later_;
};

}  // namespace

std::string text(const ParameterTensor& t) {
  const bool adapter = t.kind == Kind::a || t.kind == Kind::b;
  const bool of_layer = t.owner >= Owner::norm1 && t.owner <= Owner::down;
  return (of_layer ? "layer " + std::to_string(t.layer) + " " : "") +
         std::string(adapter ? name(t.module) : name(t.owner)) + " " + std::string(name(t.kind));
}

std::vector<ParameterTensor> parameter_tensors(const TransformerShape& model, const LoraShape& lora, Trains trains) {
  return flat_layout(model, lora, trains).tensors;
}

FlatLayout flat_layout(const TransformerShape& model, const LoraShape& lora, Trains trains, std::size_t multiple,
                       bool apart) {
  return Layout(model, lora, trains, multiple, apart).make();
}

std::vector<Stretch> stretches(const TransformerShape& part, const ParameterTensor& t, int ranks, int rank) {
  const auto all = static_cast<std::size_t>(ranks), mine = static_cast<std::size_t>(rank);
  const auto linear = std::find_if(linears.begin(), linears.end(), [&](Linear l) { return owner(l) == t.owner; });
  if (t.replicated() || (ranks == 1 && t.kind == Kind::bias)) return {{Module::q, 0, t.size(), {}, 0}};
  if (linear == linears.end()) return {{Module::q, 0, t.size(), {mine * t.size()}, 0}};
  if (*linear == Linear::o || *linear == Linear::down) {
    return {{*linear == Linear::o ? Module::o : Module::down, 0, t.size(), {mine * t.cols, t.cols, all * t.cols}, 0}};
  }
  std::vector<Stretch> stretches;
  for (const auto& p : fused(part, no_adapters, *linear).parts) {
    const auto each = t.kind == Kind::bias ? 1 : t.cols, of_module = all * p.row * each, count = p.rows * each;
    stretches.push_back({p.module, p.row * each, count, {of_module + mine * count}, of_module});
  }
  return stretches;
}

std::vector<std::size_t> offsets_in_model(const std::vector<ParameterTensor>& tensors) {
  std::vector<std::size_t> offsets;
  std::size_t next = 0;
  for (const auto& t : tensors) offsets.push_back(std::exchange(next, next + t.size()));
  return offsets;
}

std::vector<Piece> pieces(const FlatLayout& layout, int ranks, int rank) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    const auto& t = layout.tensors[i];
    const auto& unit = layout.units[t.unit];
    const auto share = unit.size / static_cast<std::size_t>(ranks);
    const auto begin = unit.offset + static_cast<std::size_t>(rank) * share;
    const auto first = std::max(begin, t.offset), end = std::min(begin + share, t.end());
    if (first < end) pieces.push_back({i, first, end - first});
  }
  return pieces;
}

std::size_t complete_before_attention(const std::vector<ParameterTensor>& tensors, const TransformerShape& model,
                                      std::size_t layer) {
  std::size_t end = 0;
  for (const auto& t : tensors) {
    const bool later = t.owner == Owner::qkv || t.owner == Owner::embedding || t.owner == Owner::positions ||
                       (t.owner == Owner::norm1 && model.norms_before());
    if (t.layer < layer || (t.layer == layer && later)) break;
    end = t.end();
  }
  return end;
}

}  // namespace shakedown::training
