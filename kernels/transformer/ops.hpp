// The operations that a training step is written in. The host has them for float and double (kernels/host), CUDA for
// bf16 with fp32 masters (kernels/cuda); step.hpp is one text for both, so that what is tested on the host is what is
// measured on the GPU.
//
// Every operation is queued on the one compute stream of its backend and waits for nothing, unless said otherwise;
// nothing is allocated. Matrices are row-major and strided, and a backend must respect strides and leave what lies
// between the rows alone. `Element` is the type of weights and activations, `Master` that of gradients, of the
// trainable parameters and of what is kept per row; products accumulate in Master or better, and every output element
// is rounded once. All operations are deterministic: the same inputs give the same bits.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "kernels/device.hpp"
#include "kernels/transformer/parameters.hpp"

namespace shakedown::training {

/// rows x cols elements at `data`, rows `stride` elements apart.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0, cols = 0, stride = 0;

  Matrix block(std::size_t row, std::size_t col, std::size_t block_rows, std::size_t block_cols) const {
    return {data + row * stride + col, block_rows, block_cols, stride};
  }
  Matrix columns(std::size_t col, std::size_t count) const { return block(0, col, rows, count); }
  Matrix row_range(std::size_t row, std::size_t count) const { return block(row, 0, count, cols); }
  /// To a matrix of constants, as T* becomes const T*. (A template, because nvcc warns of a conversion to oneself.)
  template <class U>
  requires(std::same_as<U, const T> && !std::same_as<U, T>) operator Matrix<U>() const {
    return {data, rows, cols, stride};
  }
  explicit operator bool() const { return data != nullptr; }
};

/// D = alpha op(A) op(B) + beta C + bias. C is D itself where `c` is null, else it has D's stride; it is not read if
/// beta is 0, even where it holds NaN. `bias`, if any, has one element per column of D. rows x cols of D decide the
/// product; op(X) is X or its transpose.
template <class In, class Out>
struct Gemm {
  Matrix<Out> d;
  Matrix<const In> a = {};
  bool a_transposed = false;
  Matrix<const In> b = {};
  bool b_transposed = false;
  double alpha = 1, beta = 0;
  const Out* c = nullptr;
  const In* bias = nullptr;
};

struct AttentionShape {
  std::size_t batch, seq, heads, kv_heads, head_dim;
  bool causal = true;
};

/// What a norm multiplies with and adds. Null `shift`: RMSNorm.
template <class Element>
struct NormWeights {
  Element *gain = nullptr, *shift = nullptr;
};

/// One mean and one 1 / sqrt(variance + eps) per row. Null `mean`: RMSNorm, where the mean counts as 0.
template <class Master>
struct NormStatistics {
  Master *mean = nullptr, *rstd = nullptr;
};

/// Where the gradients of a norm's weights go. Null `gain`: it is not trained; null `shift`: RMSNorm.
template <class Master>
struct NormGradient {
  Master *gain = nullptr, *shift = nullptr;
  bool accumulate = false;  // to what is there
};

enum class Rotation { forward, backward };

/// What value i of an array adds to its checksum. The factor is odd and differs from value to value, so that no change
/// of one value, no swap of two that differ, and no two flipped bits go unseen; one multiplication, so that memory sets
/// the pace of a summary.
constexpr std::uint64_t checksum_term(std::uint64_t bits, std::uint64_t i) { return bits * (2 * i + 1); }

/// The signs with which value i and those behind it, up to a multiple of four, count in a projection, from the highest
/// bit on: as good as random, and four for the price of one, so that memory sets the pace here as well.
constexpr std::uint32_t signs_from(std::uint64_t i) {
  const auto spread = static_cast<std::uint32_t>(i / 4) * 0x9E3779B1U;
  return (spread ^ spread >> 15) * 0x85EBCA77U << i % 4;
}
constexpr bool is_negative(std::uint32_t signs) { return signs >> 31 != 0; }

/// What one pass over a gradient or over parameters tells. A call adds to what is there, so that an array may be
/// summarized in parts: the order of the parts changes no bit of the two integers.
struct Summary {
  double squared_norm;       // sum of squares, in a fixed order; not finite if a value is not, or if it overflows
  std::uint64_t non_finite;  // values that are NaN or infinite
  std::uint64_t checksum;    // sum over i of (bits of value i) (2 (first + i) + 1), modulo 2^64; see checksum_term
  /// Sum over i of value i with the sign of first + i (signs_from), in a fixed order. It is linear: that of a sum of
  /// arrays is the sum of theirs, whatever they hold.
  double projection = 0;
};

inline Summary operator+(const Summary& a, const Summary& b) {
  return {a.squared_norm + b.squared_norm, a.non_finite + b.non_finite, a.checksum + b.checksum,
          a.projection + b.projection};
}

/// What a sum over ranks tells of a rank's share, elements first.. of a larger array, as it passes: what the rank had
/// there, what the sum is, and where ops.fetches_sums() what came from all others (the checksum alone). Null: it is not
/// asked.
struct ShareSummaries {
  std::size_t first = 0;
  Summary *before = nullptr, *after = nullptr, *fetched = nullptr;
};

/// What one step leaves behind on the device, read much later.
struct Record {
  double loss;           // mean over this rank's tokens of the step, before the update
  Summary local;         // gradient of this rank, before it is summed over ranks
  Summary reduced;       // gradient summed over ranks
  Summary updated;       // trainable parameters after the update; its projection is not told
  Summary shared = {};   // of these what all ranks that compute a model together have
  Summary share = {};    // of `local` this rank's own share, where ranks share the state
  Summary fetched = {};  // what came here from other ranks for that share: the checksum
};

/// One AdamW update (Loshchilov and Hutter 2019, arXiv 1711.05101), as torch.optim.AdamW does it:
/// g' = clip g; p -= lr weight_decay p; m = beta1 m + (1 - beta1) g'; v = beta2 v + (1 - beta2) g'^2;
/// p -= lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps).
/// clip = min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
struct AdamW {
  double lr = 2e-4, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01, max_norm = 1;
  std::uint64_t step = 1;  // of this update, from 1
};

/// The trainable parameters that this rank updates and what belongs to them, each `count` values; of the gradient more
/// where it lies in that of all.
template <class Master>
struct FlatState {
  Master *parameters, *gradient, *first_moment, *second_moment;
  std::size_t count;
};

/// One tensor of the flat array. Where its Element copy lies: parameters[offset + r cols + c], times scale, rounded
/// once, goes to place(r, c). And whether weight decay is for it.
template <class Element>
struct ParameterSlot {
  std::size_t offset;
  Matrix<Element> place;
  double scale;
  bool decays = true;
  std::size_t gradient_behind = 0;  // its gradient begins so many values behind `offset`
};

/// Points of time in a step, for the split into its phases.
enum class Mark { begin, forward_begin, forward_end, backward_end, reduced, end };
inline constexpr std::size_t marks = 6;

// clang-format off
/// The set of operations. `const T*` inputs are on the device unless it says "host".
template <class Ops>
concept TrainingOps = requires(
    Ops ops, typename Ops::Element* e, const typename Ops::Element* ce, typename Ops::Master* m,
    const typename Ops::Master* cm, Matrix<typename Ops::Element> em, Matrix<const typename Ops::Element> cem,
    const Gemm<typename Ops::Element, typename Ops::Element>& product,
    const Gemm<typename Ops::Element, typename Ops::Master>& gradient_product,
    NormWeights<typename Ops::Element> weights, NormStatistics<typename Ops::Master> stats,
    NormGradient<typename Ops::Master> norm_gradient, ShareSummaries told, Matrix<typename Ops::Master> mm,
    const int* ints, AttentionShape shape, Summary* summary, const Summary* csummary, double x, double* dx,
    std::size_t n, std::uint64_t u, bool flag, std::byte* bytes, void* p, const void* cp, Group& group,
    std::span<const ParameterSlot<typename Ops::Element>> slots, const FlatState<typename Ops::Master>& state,
    const std::function<void()>& queue,
    const Choices& remembered, Choices* chosen) {

  // Set-up. These may wait and allocate.

  /// Bytes that the backend itself wants from the arena for this step: workspaces of its libraries, partial sums. May
  /// be 0. Constant for one Ops object, known before anything large is allocated.
  { ops.workspace_bytes() } -> std::convertible_to<std::size_t>;
  /// Hands that slice over; valid as long as the Ops object is used.
  ops.use_workspace(bytes);
  /// Memory of the device, freed with the returned object; .data() is aligned to Arena::alignment. Errors: the
  /// backend's, if there is not so much.
  { ops.allocate(n).data() } -> std::convertible_to<std::byte*>;
  /// Copies between host and device, done on return, after everything queued before.
  ops.copy_in(p, cp, n);       // device, host, bytes
  ops.copy_out(p, cp, n);      // host, device, bytes
  /// Memory of the host that the device copies to and from as fast as it can; freed with the returned object, once
  /// what copies there is done.
  { ops.host_memory(n).data() } -> std::convertible_to<std::byte*>;
  /// Begins a copy between that and the device, behind all that was queued before. There are two turns: `finish_copy`
  /// returns when the last copies of that turn are done.
  ops.begin_copy(p, cp, n, n);  // to, from, bytes, turn
  ops.finish_copy(n);
  { Ops::to_element(x) } -> std::same_as<typename Ops::Element>;  // rounded to nearest even
  { Ops::to_double(*ce) } -> std::convertible_to<double>;
  /// Sets bytes of device memory (queued): 0, or 0xff, which is NaN in every floating type.
  ops.set_bytes(p, 0xff, n);
  /// Copies bytes within the device's memory (queued).
  ops.copy_bytes(p, cp, n);    // to, from, bytes
  /// element (r, c) = stddev normal((tensor << 32) + r cols + c, stream 0) of reference.hpp, rounded once.
  ops.fill_normal(em, x, u);                // matrix, stddev, tensor
  /// Likewise value i of some for element numbers(first + i).
  ops.fill_normal(m, n, x, u, n, Numbers{});  // values, count, stddev, tensor, first, numbers
  /// Tells once where the Element copies of the trainable parameters live; `slots` are on the host, ordered by offset,
  /// and cover what this rank updates.
  ops.place_copies(slots);
  /// Queues what `queue` does, which is the same whenever the number is: a backend may record it the first time and
  /// launch it as a whole from then on. It has run before, by itself, and queues nothing beside the others.
  ops.repeat(n, queue);
  /// Waits until all that was queued is done.
  ops.synchronize();
  /// Collective, once, before the first step: makes what sums over these ranks, and over those that compute a model
  /// together, if these are several.
  ops.connect(group, &group);
  /// Between these two each product that is met for the first time may try algorithms on the matrices at hand, whose
  /// contents are lost, or one turn of what is remembered of it; then rank 0's choices become those of all ranks
  /// (collective) and are noted. False: what was remembered is no longer good: tune again without it. Errors of the
  /// second: Unsupported, on all ranks together.
  ops.start_tuning(remembered);
  { ops.finish_tuning(group, chosen) } -> std::same_as<bool>;
  /// Bytes of device memory in use, by this process or where the device cannot tell by all.
  { ops.used_bytes() } -> std::convertible_to<std::size_t>;
  /// Further figures of this rank about how it does all this; may be empty.
  { ops.metrics() } -> std::same_as<Metrics>;

  // Products

  ops.gemm(product);
  ops.gemm(gradient_product);  // D in Master: gradients of weights

  /// to = from; same rows and cols.
  ops.copy(cem, em);

  // Layers

  /// row i of out = row tokens[i] of table, plus row i mod seq of positions where those are given. A token below 0 is in
  /// another rank's part of the vocabulary: its row is zero.
  ops.embedding(cem, ints, cem, n, em);     // table, tokens, positions, seq, out
  /// Row tokens[i] of d_table += row i of dx, in the order of i: `order` has the numbers of all rows of dx sorted by
  /// their tokens, those of the same token in order. Those below 0 count nowhere.
  ops.embedding_backward(cem, ints, ints, mm);           // dx, tokens, order, d_table
  /// n = (x - mean) rstd gain + shift, row by row: LayerNorm, with the mean of x and its variance over the row; without
  /// shift and mean RMSNorm, rstd = 1 / sqrt(mean(x^2) + eps).
  ops.norm(cem, weights, x, em, stats);     // x, weights, eps, n, statistics
  /// dx = (accumulate ? dx : 0) + gradient of x, that of n being dn: with g = dn gain and y = (x - mean) rstd,
  /// rstd (g - mean(g) - y mean(g y)), of RMSNorm without mean(g). Writes n again where that matrix is given (its data
  /// not null), to the same bits as norm. dn and n may be the same memory only if n is not wanted; dn and dx may be the
  /// same memory.
  /// If its weights are trained: d_gain = (accumulate ? d_gain : 0) + sum over rows of dn y, d_shift likewise of dn.
  ops.norm_backward(cem, cem, weights, stats, flag, em, em, norm_gradient);  // dn, x, ..., accumulate, dx, n, gradients
  /// sums = (accumulate ? sums : 0) + sum over rows of dy: the gradient of a bias.
  ops.sum_rows(cem, flag, m);                            // dy, accumulate, sums
  /// Rotates the query and key heads of qkv ([q heads | k heads | v heads] x head_dim per row) in place; row t has
  /// position p = t mod seq; pair (i, i + head_dim / 2) of a head by the angle whose cosine is table[p head_dim + i]
  /// and whose sine is table[p head_dim + head_dim / 2 + i]; backward by the negative angle.
  ops.rope(em, cm, shape, Rotation::forward);
  /// Attention of packed q, k, v with scale 1 / sqrt(head_dim), causal or of all positions of a sequence; query head h
  /// uses key head h kv_heads / heads.
  /// o: rows x (heads head_dim); lse[(b heads + h) seq + t] = log of the sum of exp of the scaled scores.
  ops.attention(cem, em, m, shape);                        // qkv, o, lse
  /// Gradient of the packed q, k, v from that of o.
  ops.attention_backward(cem, cem, cm, cem, em, shape);    // qkv, o, lse, d_o, d_qkv
  /// gu = [gate | up]: h = gate sigmoid(gate) up.
  ops.swiglu(cem, em);
  /// In place: [gate | up] becomes [d gate | d up], and dh becomes h (the same bits as swiglu) if emit_h, else stays.
  ops.swiglu_backward(em, em, flag);                       // gu, dh, emit_h
  /// h = gelu(u) = u/2 (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))).
  ops.gelu(cem, em);
  /// In place: u becomes its gradient, and dh becomes h (the same bits as gelu) if emit_h, else stays.
  ops.gelu_backward(em, em, flag);                         // u, dh, emit_h
  /// In place: logits become scale (softmax - onehot(target)); losses[i] = -log softmax of the target in row i. Of ranks
  /// that compute a model together each has the logits of its part of the vocabulary, and a target below 0 where another
  /// one has it; the softmax is over those of all, and all have the same losses.
  ops.cross_entropy(em, ints, x, m);                       // logits, targets, scale, losses
  /// *to += scale sum of values, in a fixed order.
  ops.add_sum(cm, n, x, dx);                               // values, count, scale, to

  // Among the ranks that compute a model together, in the order of what is queued. `all` has the rows of all their
  // tokens without a gap, those of rank r behind those of rank r - 1.

  /// From the rows of each rank in its `all` those of all ranks in every `all`.
  ops.gather_tokens(em);
  /// own = the sum over ranks of this rank's rows of `all`; may be these rows. What else is in `all` is lost.
  ops.scatter_tokens(em, em);                              // all, own
  /// Each value, or the summary, becomes the sum over ranks, the same bits on all of them.
  ops.sum_together(m, n);
  ops.sum_together(summary);

  // Gradients and parameters

  /// Adds to *summary what values[0..count), which are elements first.. of a larger array, tell.
  ops.summarize(cm, n, n, summary);                        // values, first, count, summary
  ops.summarize(ce, n, n, summary);
  /// Updates parameters and moments of slots first.. and writes their Element copies; leaves them all alone if the
  /// gradient's summary has values that are not finite or no finite norm. Adds to the other summary what the parameters
  /// are then.
  ops.adamw(state, AdamW{}, csummary, summary, n, n);      // state, settings, of gradient, of parameters, first, slots
  /// Writes the Element copies of the parameters into their slots.
  ops.write_copies(cm);
  /// Sum over ranks of values[0..count), in place, on a second stream: begins when what was queued before is done, and
  /// runs beside what is queued after it. Nothing for one rank.
  ops.all_reduce(m, n);
  /// The same, of this summary.
  ops.all_reduce(summary);
  /// Likewise on the second stream: `own` becomes rank r's share of the sum over ranks of all[r count + i], or that is
  /// added to it; what else is in `all` is lost. Adds to the summaries, of which nobody else may write the second one
  /// until it is done. And `all` becomes the shares of all ranks, one behind the other. A share may lie in its own
  /// place in `all`. The numbers are for `wait`: what is queued behind it begins when that operation is done.
  { ops.reduce_scatter(m, m, n, flag, told) } -> std::same_as<std::size_t>;  // all, own, count of a share, add
  /// Whether a rank sees what others have of its share, and so tells of it; else only the sum comes here.
  { ops.fetches_sums() } -> std::same_as<bool>;
  /// Which attention it is: another one gives other bits.
  { ops.attention_name() } -> std::same_as<std::string>;
  /// Whether the same inputs give the same bits each time.
  { ops.is_deterministic() } -> std::same_as<bool>;
  { ops.all_gather(ce, e, n) } -> std::same_as<std::size_t>;      // own, all, count of a share
  ops.wait(n);
  /// Ranks may fetch the shares of others by themselves, on a stream of its own, where all ranks have their memory laid
  /// out alike. Then what is gathered from here on, and what is queued behind the next join, begins when all ranks have
  /// come here and are done with what they queued before; what they gather only if they joined it. Collective; nothing
  /// where all_gather waits for all ranks.
  ops.meet();
  /// What is queued from here on begins when all that runs beside is done.
  ops.join_reductions();
  /// Notes the point of time at which what was queued before is done; the last notes of each kind count.
  ops.mark(Mark::begin);
  /// Between two marks, in milliseconds; waits.
  { ops.milliseconds(Mark::begin, Mark::end) } -> std::convertible_to<double>;
  /// Cycles of a processor while what this queues runs; waits. Nothing where the backend does not count them.
  { ops.cycles(queue) } -> std::same_as<std::optional<double>>;
};
// clang-format on

}  // namespace shakedown::training
