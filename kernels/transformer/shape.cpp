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

Preset preset(std::string_view name) {
  constexpr TransformerShape qwen2_7b = {.layers = 28,
                                         .hidden = 3584,
                                         .heads = 28,
                                         .kv_heads = 4,
                                         .head_dim = 128,
                                         .intermediate = 18944,
                                         .vocab = 152064};
  constexpr TransformerShape llama_8b = {.layers = 32,
                                         .hidden = 4096,
                                         .heads = 32,
                                         .kv_heads = 8,
                                         .head_dim = 128,
                                         .intermediate = 14336,
                                         .vocab = 128256,
                                         .norm_eps = 1e-5,
                                         .rope_theta = 5e5,
                                         .qkv_bias = false};
  auto qwen2_7b_8_layers = qwen2_7b;
  auto llama_8b_8_layers = llama_8b;
  qwen2_7b_8_layers.layers = llama_8b_8_layers.layers = 8;
  auto llama2_13b = llama_8b, llama_70b = llama_8b;
  llama2_13b.layers = llama2_13b.heads = llama2_13b.kv_heads = 40;
  llama2_13b.hidden = 5120;
  llama2_13b.intermediate = 13824;
  llama2_13b.vocab = 32000;
  llama2_13b.rope_theta = 1e4;
  llama_70b.layers = 80;
  llama_70b.heads = 64;
  llama_70b.hidden = 8192;
  llama_70b.intermediate = 28672;
  // Every size is a multiple of 8, so that rows of bf16 keep their alignment of 16 bytes.
  constexpr TransformerShape tiny = {
      .layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .intermediate = 160, .vocab = 256};
  constexpr TransformerShape gpt2_124m = {.layers = 12,
                                          .hidden = 768,
                                          .heads = 12,
                                          .kv_heads = 12,
                                          .head_dim = 64,
                                          .intermediate = 3072,
                                          .vocab = 50304,
                                          .norm_eps = 1e-5,
                                          .norm = Norm::layer,
                                          .mlp = Mlp::gelu,
                                          .positions = Positions::learned,
                                          .context = 1024,
                                          .all_biases = true,
                                          .tied = true};
  const auto smaller = [](TransformerShape model) {
    model.layers = 2;
    model.hidden = 64;
    model.heads = model.kv_heads = 4;
    model.head_dim = 16;
    model.intermediate = 256;
    model.vocab = 256;
    model.context = 64;
    return model;
  };
  auto encoder = gpt2_124m;
  encoder.norm_place = NormPlace::behind;
  encoder.context = 512;
  encoder.causal = encoder.tied = false;
  encoder.head_bias = true;
  if (name == "qwen2_7b") return {qwen2_7b, {64, 128}};
  if (name == "qwen2_7b_attention_only") return {qwen2_7b, {64, 128, {true, true, true, true, false, false, false}}};
  if (name == "qwen2_7b_8_layers") return {qwen2_7b_8_layers, {64, 128}};
  if (name == "llama_8b") return {llama_8b, {64, 128}};
  if (name == "llama_8b_8_layers") return {llama_8b_8_layers, {64, 128}};
  if (name == "llama2_13b") return {llama2_13b, {64, 128}};
  if (name == "llama_70b") return {llama_70b, {64, 128}};
  if (name == "gpt2_124m") return {gpt2_124m, {64, 128}};
  if (name == "encoder_163m") return {encoder, {64, 128}};
  if (name == "tiny") return {tiny, {8, 16}};
  if (name == "gpt2_tiny") return {smaller(gpt2_124m), {8, 16}};
  if (name == "encoder_tiny") return {smaller(encoder), {8, 16}};
  throw std::invalid_argument(
      "there is no model \"" + std::string(name) +
      "\": choose qwen2_7b, qwen2_7b_attention_only, qwen2_7b_8_layers, llama_8b, llama_8b_8_layers, llama2_13b, "
      "llama_70b, gpt2_124m, encoder_163m, tiny, gpt2_tiny or encoder_tiny");
}

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
