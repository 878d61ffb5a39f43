// What a LoRA training step is made of, as numbers: the dimensions of a decoder with rotary positions, grouped-query
// attention and SwiGLU (Qwen2, Llama), its adapters, how many parameters and floating-point operations that is, and how
// the trainable parameters lie in one flat array. No memory, no device: everything here is arithmetic.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"

namespace shakedown::training {

/// The dimensions of a decoder-only transformer with pre-normalisation and untied embeddings.
struct TransformerShape {
  std::size_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
  double rms_eps = 1e-6, rope_theta = 1e6;

  std::size_t q_width() const { return heads * head_dim; }
  std::size_t kv_width() const { return kv_heads * head_dim; }
  std::size_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

/// The projections of a layer that can have an adapter.
enum class Module { q, k, v, o, gate, up, down };
inline constexpr std::size_t modules = 7;
constexpr auto words(Module) { return names("q", "k", "v", "o", "gate", "up", "down"); }

/// Low-rank adapters (Hu et al. 2021, arXiv 2106.09685): y = W x + (alpha / rank) B A x, with A rank x in, B out x
/// rank.
struct LoraShape {
  std::size_t rank;
  double alpha;
  std::array<bool, modules> adapted = {true, true, true, true, true, true, true};

  double scale() const { return alpha / static_cast<double>(rank); }
  bool has(Module m) const { return adapted[static_cast<std::size_t>(m)]; }
};

/// A model with its adapters, by name: qwen2_7b (rank 64 on all seven projections), qwen2_7b_attention_only (q, k, v
/// and o), tiny (two layers, for machines without a GPU). Errors: std::invalid_argument, naming those that exist.
struct Preset {
  TransformerShape model;
  LoraShape lora;
};
Preset preset(std::string_view name);

/// What the forward pass keeps for the backward pass.
enum class Retain {
  all,      // every input of a projection
  rebuild,  // not the outputs of norms and of SwiGLU, which elementwise passes of the backward pass make again
  inputs    // only the input of each layer; its whole forward pass runs a second time (full checkpointing)
};
constexpr auto words(Retain) { return names("all", "rebuild", "inputs"); }

// ---------------------------------------------------------------------------------------------------------------------
// Projections. Those that read the same input are one matrix: q, k and v; gate and up.

enum class Linear { qkv, o, gate_up, down };
inline constexpr std::array<Linear, 4> linears = {Linear::qkv, Linear::o, Linear::gate_up, Linear::down};

/// One module inside of a fused projection.
struct Part {
  Module module;
  std::size_t row, rows;  // its outputs among those of the projection
  bool adapted;
  std::size_t u;  // its first column among the adapters' `rank_total` columns
};

/// A fused projection. With R = rank_total (rank times adapted parts) its weights are one matrix of (out + R) rows and
/// (in + R) columns,
///
///       W  | sB      W frozen, out x in; s = alpha / rank; B of each part in its own rows and its own columns of `u`
///      ----+----     (elsewhere zero); A of all adapted parts, one below the other, R x in.
///       A  | 0
///
/// With U = X A' in the columns behind X, [X | U] [W | sB]' is the adapted forward product in one pass; with
/// dU = dY (sB) in the columns behind dY, [dY | dU] [W ; A] is the gradient of its input.
struct FusedLinear {
  std::size_t in = 0, out = 0, rank_total = 0;
  std::vector<Part> parts;
};
FusedLinear fused(const TransformerShape&, const LoraShape&, Linear);

// ---------------------------------------------------------------------------------------------------------------------
// Counts

struct ParameterCount {
  std::size_t linears, biases, norms, embeddings, head;                               // frozen
  std::size_t adapters;                                                               // trainable
  std::size_t total() const { return linears + biases + norms + embeddings + head; }  // of the model without adapters
};
ParameterCount parameters(const TransformerShape&, const LoraShape&);

/// Floating-point operations of one training step per token (a multiplication and an addition are two). Causal
/// attention counts half of the square, its backward pass 2.5 times its forward pass (Dao 2023, arXiv 2307.08691).
/// Frozen weights have no gradient; elementwise operations, and whatever is computed a second time to save memory, do
/// not count.
struct TokenFlops {
  double linears, attention, head, adapters;
  double recomputed;  // by full checkpointing, not part of the total
  double total() const { return linears + attention + head + adapters; }
};
TokenFlops token_flops(const TransformerShape&, const LoraShape&, std::size_t seq);

// ---------------------------------------------------------------------------------------------------------------------
// The flat array of the trainable parameters

/// One A or B in the flat array, row-major. A of the adapted parts of one fused projection follow each other, so that
/// they are one matrix.
struct AdapterTensor {
  std::size_t layer;
  Module module;
  bool is_b;
  std::size_t rows, cols;
  std::size_t offset;
  std::size_t size() const { return rows * cols; }
};

/// In the order in which the backward pass completes their gradients: from the last layer to the first; in a layer
/// down, gate and up, o, then q, k and v; in each of these all B, then all A. What has an index below that of a tensor
/// is complete when that tensor is.
std::vector<AdapterTensor> adapter_tensors(const TransformerShape&, const LoraShape&);

}  // namespace shakedown::training
