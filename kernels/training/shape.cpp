#include "kernels/training/shape.hpp"

#include <algorithm>
#include <stdexcept>

namespace shakedown::training {

namespace {

std::size_t outputs(const TransformerShape& model, Module module) {
  switch (module) {
    case Module::q: return model.q_width();
    case Module::k:
    case Module::v: return model.kv_width();
    case Module::gate:
    case Module::up: return model.intermediate;
    case Module::o:
    case Module::down: return model.hidden;
  }
  throw std::invalid_argument("unknown module");
}

std::vector<Module> modules_of(Linear linear) {
  switch (linear) {
    case Linear::qkv: return {Module::q, Module::k, Module::v};
    case Linear::o: return {Module::o};
    case Linear::gate_up: return {Module::gate, Module::up};
    case Linear::down: return {Module::down};
  }
  throw std::invalid_argument("unknown projection");
}

std::size_t inputs(const TransformerShape& model, Linear linear) {
  switch (linear) {
    case Linear::qkv:
    case Linear::gate_up: return model.hidden;
    case Linear::o: return model.q_width();
    case Linear::down: return model.intermediate;
  }
  throw std::invalid_argument("unknown projection");
}

}  // namespace

Preset preset(std::string_view name) {
  constexpr TransformerShape qwen2_7b = {.layers = 28,
                                         .hidden = 3584,
                                         .heads = 28,
                                         .kv_heads = 4,
                                         .head_dim = 128,
                                         .intermediate = 18944,
                                         .vocab = 152064};
  // Every size is a multiple of 8, so that rows of bf16 keep their alignment of 16 bytes.
  constexpr TransformerShape tiny = {
      .layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .intermediate = 160, .vocab = 256};
  if (name == "qwen2_7b") return {qwen2_7b, {64, 128}};
  if (name == "qwen2_7b_attention_only") return {qwen2_7b, {64, 128, {true, true, true, true, false, false, false}}};
  if (name == "tiny") return {tiny, {8, 16}};
  throw std::invalid_argument("there is no model \"" + std::string(name) +
                              "\": choose qwen2_7b, qwen2_7b_attention_only or tiny");
}

FusedLinear fused(const TransformerShape& model, const LoraShape& lora, Linear linear) {
  FusedLinear result;
  result.in = inputs(model, linear);
  for (const auto module : modules_of(linear)) {
    const auto rows = outputs(model, module);
    result.parts.push_back({module, result.out, rows, lora.has(module), result.rank_total});
    result.out += rows;
    if (lora.has(module)) result.rank_total += lora.rank;
  }
  return result;
}

ParameterCount parameters(const TransformerShape& model, const LoraShape& lora) {
  ParameterCount count{};
  for (const auto linear : linears) {
    const auto shape = fused(model, lora, linear);
    count.linears += model.layers * shape.in * shape.out;
    for (const auto& part : shape.parts) {
      if (part.adapted) count.adapters += model.layers * lora.rank * (shape.in + part.rows);
    }
  }
  count.biases = model.layers * model.qkv_width();
  count.norms = model.layers * 2 * model.hidden + model.hidden;
  count.embeddings = count.head = model.vocab * model.hidden;
  return count;
}

TokenFlops token_flops(const TransformerShape& model, const LoraShape& lora, std::size_t seq) {
  const auto count = parameters(model, lora);
  const auto linear = static_cast<double>(count.linears), adapters = static_cast<double>(count.adapters);
  // Scores and values: each 2 operations for every pair of positions and element of a head, half of the pairs.
  const double attention = 2.0 * static_cast<double>(seq * model.q_width() * model.layers);
  return {.linears = 4 * linear,
          .attention = 3.5 * attention,
          .head = 4 * static_cast<double>(count.head),
          .adapters = 6 * adapters,
          .recomputed = 2 * linear + attention + 2 * adapters};
}

std::vector<AdapterTensor> adapter_tensors(const TransformerShape& model, const LoraShape& lora) {
  std::vector<AdapterTensor> tensors;
  std::size_t offset = 0;
  const auto add = [&](std::size_t layer, Module module, bool is_b, std::size_t rows, std::size_t cols) {
    tensors.push_back({layer, module, is_b, rows, cols, offset});
    offset += rows * cols;
  };
  for (std::size_t layer = model.layers; layer-- > 0;) {
    for (const auto linear : {Linear::down, Linear::gate_up, Linear::o, Linear::qkv}) {
      const auto shape = fused(model, lora, linear);
      for (const auto& part : shape.parts) {
        if (part.adapted) add(layer, part.module, true, part.rows, lora.rank);
      }
      for (const auto& part : shape.parts) {
        if (part.adapted) add(layer, part.module, false, lora.rank, shape.in);
      }
    }
  }
  return tensors;
}

}  // namespace shakedown::training
