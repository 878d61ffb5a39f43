#include "kernels/transformer/shape.hpp"

#include <stdexcept>
#include <string>

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

std::vector<Module> modules_of(const TransformerShape& model, Linear linear) {
  switch (linear) {
    case Linear::qkv: return {Module::q, Module::k, Module::v};
    case Linear::o: return {Module::o};
    case Linear::gate_up:
      return model.mlp == Mlp::gelu ? std::vector{Module::up} : std::vector{Module::gate, Module::up};
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

TransformerShape part_of(const TransformerShape& model, int ranks) {
  auto part = model;
  const auto cut = [&](const char* what, std::size_t& size) {
    const auto count = static_cast<std::size_t>(ranks);
    if (size % count != 0) {
      throw std::invalid_argument("tp:" + std::to_string(ranks) + " does not divide the " + std::to_string(size) + " " +
                                  what + " of the model: choose one that does");
    }
    size /= count;
  };
  cut("heads", part.heads);
  cut("heads of keys and values", part.kv_heads);
  cut("columns of the MLP", part.intermediate);
  cut("tokens of the vocabulary", part.vocab);
  return part;
}

FusedLinear fused(const TransformerShape& model, const LoraShape& lora, Linear linear) {
  FusedLinear result;
  result.in = inputs(model, linear);
  result.bias = (linear == Linear::qkv && model.qkv_bias) || model.all_biases;
  for (const auto module : modules_of(model, linear)) {
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
    if (shape.bias) count.biases += model.layers * shape.out;
    for (const auto& part : shape.parts) {
      if (part.adapted) count.adapters += model.layers * lora.rank * (shape.in + part.rows);
    }
  }
  const std::size_t norms = 2 * model.layers + (model.norms_before() ? 1 : 0);
  count.norms = (model.norm == Norm::layer ? 2 : 1) * norms * model.hidden;
  count.embeddings = model.vocab * model.hidden;
  count.positions = model.context * model.hidden;
  count.head = model.tied ? 0 : model.vocab * model.hidden;
  if (model.head_bias) count.biases += model.vocab;
  return count;
}

TokenFlops token_flops(const TransformerShape& model, const LoraShape& lora, std::size_t seq, Trains trains) {
  const auto count = parameters(model, lora);
  const auto linear = static_cast<double>(count.linears), adapters = static_cast<double>(count.adapters);
  // Scores and values: 2 operations each per pair of positions and element of a head; half of the pairs if the mask is
  // causal.
  const double attention = (model.causal ? 2.0 : 4.0) * static_cast<double>(seq * model.q_width() * model.layers);
  const double passes = trains == Trains::all ? 3 : 2;  // forward, the gradient of the input, and with Trains::all that
                                                        // of the weights
  return {.linears = 2 * passes * linear,
          .attention = 3.5 * attention,
          .head = 2 * passes * static_cast<double>(model.vocab * model.hidden),
          .adapters = 6 * adapters,
          .recomputed = 2 * linear + attention + 2 * adapters};
}

}  // namespace shakedown::training
