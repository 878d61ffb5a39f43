// Initial values of the tensors of a step. These values are the same for every backend, every division among ranks, and
// the peer scripts.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/transformer/parameters.hpp"

namespace shakedown::training {

/// Numbers of the random tensors: each matrix, bias and adapter has its own. Element (r, c) of a tensor with `columns`
/// columns is stddev * normal((number << 32) + r * columns + c).
namespace tensor {
constexpr std::uint64_t embedding = 0, head = 1, positions = 2, head_bias = 3;
constexpr std::uint64_t of_layer(std::size_t layer) { return 32 * (layer + 1); }
constexpr std::uint64_t weight(std::size_t layer, Module m) { return of_layer(layer) + static_cast<std::uint64_t>(m); }
constexpr std::uint64_t bias(std::size_t layer, Owner of) {
  return of_layer(layer) + (of == Owner::qkv ? 7 : 24 + static_cast<std::uint64_t>(linear_of(of)));
}
constexpr std::uint64_t a(std::size_t layer, Module m) { return of_layer(layer) + 8 + static_cast<std::uint64_t>(m); }
constexpr std::uint64_t b(std::size_t layer, Module m) { return of_layer(layer) + 16 + static_cast<std::uint64_t>(m); }
}  // namespace tensor

/// Standard deviation of all random weights, as in Qwen2Config and GPT2Config. B is not zero, unlike in real
/// fine-tuning: with B = 0 half of the backward pass would compute zeros.
inline constexpr double weight_stddev = 0.02;

/// Returns the expected loss of the first step. The logits are normal with variance hidden stddev^2, so the log of the
/// mean of exp is half of the variance.
inline double expected_first_loss(const TransformerShape& model) {
  return std::log(static_cast<double>(model.vocab)) +
         static_cast<double>(model.hidden) * weight_stddev * weight_stddev / 2;
}

/// Fills a tensor of rank `rank` of `ranks` in a tensor parallel group, each of which has its part of the model. Random
/// values are set by normal(stretch, number), norms and their shifts by constant(value).
template <class Normal, class Constant>
void draw(const TransformerShape& part, const ParameterTensor& t, int ranks, int rank, const Normal& normal,
          const Constant& constant) {
  const bool is_bias = t.kind == Kind::bias;
  if (t.is_norm()) return constant(is_bias ? 0 : 1);
  if (t.kind == Kind::a) return normal(Stretch{t.module, 0, t.size(), {}, 0}, tensor::a(t.layer, t.module));
  if (t.kind == Kind::b) return normal(Stretch{t.module, 0, t.size(), {}, 0}, tensor::b(t.layer, t.module));
  for (auto s : stretches(part, t, ranks, rank)) {
    if (is_bias) s.of_module = 0;  // q, k and v share one bias
    if (t.owner == Owner::embedding) {
      normal(s, tensor::embedding);
    } else if (t.owner == Owner::positions) {
      normal(s, tensor::positions);
    } else if (t.owner == Owner::head) {
      normal(s, is_bias ? tensor::head_bias : tensor::head);
    } else {
      normal(s, is_bias ? tensor::bias(t.layer, t.owner) : tensor::weight(t.layer, s.module));
    }
  }
}

/// Returns the table of ops.rope: positions count from 0 in each sequence; angle = position / theta^(2 i / head_dim).
template <class Master>
std::vector<Master> rotation_table(std::size_t seq, std::size_t head_dim, double theta) {
  std::vector<Master> table(seq * head_dim);
  for (std::size_t p = 0; p < seq; ++p) {
    for (std::size_t i = 0; i < head_dim / 2; ++i) {
      const double exponent = 2 * static_cast<double>(i) / static_cast<double>(head_dim);
      const double angle = static_cast<double>(p) * std::pow(theta, -exponent);
      table[p * head_dim + i] = static_cast<Master>(std::cos(angle));
      table[p * head_dim + head_dim / 2 + i] = static_cast<Master>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace shakedown::training
