#include "kernels/training/parameters.hpp"

namespace shakedown::training {

namespace {

class Layout {
 public:
  Layout(const TransformerShape& model, const LoraShape& lora, Trains trains)
      : model_(model), lora_(lora), all_(trains == Trains::all) {}

  std::vector<ParameterTensor> tensors() {
    if (all_) add_head();
    for (layer_ = model_.layers; layer_-- > 0;) add_layer();
    layer_ = 0;
    if (all_ && model_.positions == Positions::learned) {
      add(Owner::positions, Kind::weight, model_.context, model_.hidden);
    }
    if (all_) add(Owner::embedding, Kind::weight, model_.vocab, model_.hidden);
    return std::move(tensors_);
  }

 private:
  void add(Owner owner, Kind kind, std::size_t rows, std::size_t cols, Module module = Module::q) {
    tensors_.push_back({layer_, owner, kind, module, rows, cols, next_});
    next_ += rows * cols;
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
  bool all_;
  std::size_t layer_ = 0, next_ = 0;
  std::vector<ParameterTensor> tensors_;
};

}  // namespace

std::string text(const ParameterTensor& t) {
  const bool adapter = t.kind == Kind::a || t.kind == Kind::b;
  const bool of_layer = t.owner >= Owner::norm1 && t.owner <= Owner::down;
  return (of_layer ? "layer " + std::to_string(t.layer) + " " : "") +
         std::string(adapter ? name(t.module) : name(t.owner)) + " " + std::string(name(t.kind));
}

std::vector<ParameterTensor> parameter_tensors(const TransformerShape& model, const LoraShape& lora, Trains trains) {
  return Layout(model, lora, trains).tensors();
}

std::size_t complete_before_attention(const std::vector<ParameterTensor>& tensors, const TransformerShape& model,
                                      std::size_t layer) {
  std::size_t end = 0;
  for (const auto& t : tensors) {
    const bool later = t.owner == Owner::qkv || t.owner == Owner::embedding || t.owner == Owner::positions ||
                       (t.owner == Owner::norm1 && model.norms_before());
    if (t.layer > layer || (t.layer == layer && !later)) end = t.offset + t.size();
  }
  return end;
}

}  // namespace shakedown::training
