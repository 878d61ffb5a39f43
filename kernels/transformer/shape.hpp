// Dimensions and parts of a transformer (Qwen2 and Llama, GPT-2, an encoder) and its adapters. This file also has the
// numbers of parameters and floating-point operations. Only arithmetic: no memory, no device.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/names.hpp"

namespace shakedown::training {

/// RMSNorm (Zhang and Sennrich 2019), or LayerNorm (Ba et al. 2016) with a shift.
enum class Norm { rms, layer };
/// Norms before attention, before the MLP and at the end (pre-norm), or after the sum of each with its input
/// (post-norm; Xiong et al. 2020).
enum class NormPlace { before, behind };
/// SwiGLU (Shazeer 2020), or one product and GELU as in GPT-2, by tanh (Hendrycks and Gimpel 2016).
enum class Mlp { swiglu, gelu };
/// Rotations of queries and keys, or a trained table of vectors that is added to the embedding.
enum class Positions { rope, learned };

/// The dimensions and components of a transformer; the defaults are a decoder like Qwen2 and Llama.
struct TransformerShape {
  std::size_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
  double norm_eps = 1e-6, rope_theta = 1e6;
  Norm norm = Norm::rms;
  NormPlace norm_place = NormPlace::before;
  Mlp mlp = Mlp::swiglu;
  Positions positions = Positions::rope;
  std::size_t context = 0;  // number of learned positions
  bool causal = true;
  bool qkv_bias = true;
  bool all_biases = false;  // every projection has a bias, not only q, k and v
  bool tied = false;        // the head is the embedding
  bool head_bias = false;

  bool norms_before() const { return norm_place == NormPlace::before; }
  std::size_t mlp_width() const { return (mlp == Mlp::swiglu ? 2 : 1) * intermediate; }  // of its first product
  std::size_t q_width() const { return heads * head_dim; }
  std::size_t kv_width() const { return kv_heads * head_dim; }
  std::size_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

/// Returns the part of a model on each rank of a tensor parallel group (Shoeybi et al. 2019, arXiv 1909.08053): in
/// every layer an equal part of the heads and of the MLP, and an equal part of the vocabulary. Errors:
/// std::invalid_argument if a size is not divisible.
TransformerShape part_of(const TransformerShape&, int ranks);

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

inline constexpr LoraShape no_adapters{1, 1, {}};

/// The trained parameters: adapters with frozen weights, or all parameters.
enum class Trains { adapters, all };

/// The tokens of a rank: the same on all ranks, so that all must compute the same bits, or its own.
enum class Data { same, rank };
constexpr auto words(Data) { return names("same", "rank"); }

/// The state that is divided among ranks instead of replicated (ZeRO, Rajbhandari et al. 2020, arXiv 1910.02054).
enum class Shard {
  none,
  optimizer,  // masters and moments (ZeRO-1)
  weights     // also weights and gradients, which are complete for one to three layers at a time (ZeRO-3)
};
constexpr auto words(Shard) { return names("none", "optimizer", "weights"); }

/// The memory of the masters and moments: of the device, or page-locked memory of its host, which the update reads and
/// writes over the bus.
enum class StateMemory { device, host };
constexpr auto words(StateMemory) { return names("device", "host"); }

/// Returns a model with its adapters by name, which is a row of models.yaml. The encoder is the model that many cluster
/// tests call GPT-2: post-norm, no causal mask, 512 positions, an untied head with bias, but without their dropout.
/// The encoder and GPT-2 have GPT-2's vocabulary of 50,257, rounded up to 50,304 as in nanoGPT. Models whose name ends
/// with `tiny` have two layers, for machines without a GPU. Decode and plans take the same names, without adapters.
/// Errors: std::invalid_argument for an unknown name. The message lists the known
/// names and the nearest one.
struct Preset {
  TransformerShape model;
  LoraShape lora;
};
Preset preset(std::string_view name);

/// The activations that the forward pass keeps for the backward pass.
enum class Retain {
  all,      // all inputs of projections
  rebuild,  // all except the outputs of norms and of SwiGLU, which elementwise operations of the backward pass
            // recompute
  inputs    // only the input of each layer; its whole forward pass runs a second time (full checkpointing)
};
constexpr auto words(Retain) { return names("all", "rebuild", "inputs"); }

// ---------------------------------------------------------------------------------------------------------------------
// Projections. Projections with the same input are fused into one matrix: q, k and v; gate and up.

enum class Linear { qkv, o, gate_up, down };
inline constexpr std::array<Linear, 4> linears = {Linear::qkv, Linear::o, Linear::gate_up, Linear::down};

/// One module inside of a fused projection. In an MLP without a gate, the first product is only `up`.
struct Part {
  Module module;
  std::size_t row, rows;  // rows of its outputs among those of the projection
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
/// With U = X A' in the columns after X, [X | U] [W | sB]' is the adapted forward product in one pass. With dU = dY
/// (sB) in the columns after dY, [dY | dU] [W ; A] is the gradient of its input.
struct FusedLinear {
  std::size_t in = 0, out = 0, rank_total = 0;
  bool bias = false;
  std::vector<Part> parts;
};
FusedLinear fused(const TransformerShape&, const LoraShape&, Linear);

// ---------------------------------------------------------------------------------------------------------------------
// Counts

struct ParameterCount {
  std::size_t linears, biases, norms, embeddings, positions, head;
  std::size_t adapters;
  std::size_t total() const { return linears + biases + norms + embeddings + positions + head; }  // without adapters
};
ParameterCount parameters(const TransformerShape&, const LoraShape&);

/// Floating-point operations of one training step per token (a multiplication and an addition are two). Causal
/// attention counts half of the square; its backward pass counts 2.5 times its forward pass (Dao 2023, arXiv
/// 2307.08691). Not counted are gradients of frozen weights, which are not computed, elementwise operations, and
/// recomputation to save memory.
struct TokenFlops {
  double linears, attention, head, adapters;
  double recomputed;  // by full checkpointing; not part of the total
  double total() const { return linears + attention + head + adapters; }
};
TokenFlops token_flops(const TransformerShape&, const LoraShape&, std::size_t seq, Trains = Trains::adapters);

}  // namespace shakedown::training
