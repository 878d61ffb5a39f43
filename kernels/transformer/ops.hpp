// The operations of a training step. The host implements them for float and double (kernels/host), CUDA for bf16 with
// fp32 masters (kernels/cuda). step.hpp uses the same code for both, so tests on the host cover the code that is
// measured on the GPU.
//
// Every operation is queued on the single compute stream of its backend, does not wait unless stated otherwise, and
// does not allocate. Matrices are row-major and strided; a backend must respect strides and not change memory between
// rows. `Element` is the type of weights and activations. `Master` is the type of gradients, trainable parameters and
// per-row values. Products accumulate in Master or better, and every output element is rounded once. All operations are
// deterministic: equal inputs give equal bits.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/short_floats.hpp"
#include "kernels/transformer/parameters.hpp"
#include "kernels/tuner.hpp"

namespace shakedown::training {

/// rows x cols elements at `data`; consecutive rows are `stride` elements apart.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0, cols = 0, stride = 0;

  Matrix block(std::size_t row, std::size_t col, std::size_t block_rows, std::size_t block_cols) const {
    return {data + row * stride + col, block_rows, block_cols, stride};
  }
  Matrix columns(std::size_t col, std::size_t count) const { return block(0, col, rows, count); }
  Matrix row_range(std::size_t row, std::size_t count) const { return block(row, 0, count, cols); }
  /// Converts to a matrix of constants, as T* becomes const T*. (A template, because nvcc warns about a conversion to
  /// the same type.)
  template <class U>
  requires(std::same_as<U, const T> && !std::same_as<U, T>) operator Matrix<U>() const {
    return {data, rows, cols, stride};
  }
  explicit operator bool() const { return data != nullptr; }
};

/// D = alpha op(A) op(B) + beta C + bias, or the GELU of that. C is D if `c` is null; otherwise it has D's stride. C is
/// not read if beta is 0, even if it contains NaN. `bias`, if any, has one element for each column of D. rows x cols of
/// D define the product; op(X) is X or its transpose.
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
  bool gelu = false;
};

/// Rows of 8-bit floats with one factor for each.
struct QuantizedRows {
  Matrix<std::uint8_t> values;
  float* scales = nullptr;
  Float8 type = Float8::e4m3;
};

/// Accumulation of a product of 8-bit floats on Hopper: with about 13 bits, or in f32.
enum class Accumulation { fast, exact };

/// D = A B' + C + bias. C has D's stride, and the bias one element for each column of D; null: 0.
template <class Element, class Out = Element>
struct QuantizedGemm {
  Matrix<Out> d;
  QuantizedRows a, b;
  const Out* c = nullptr;
  const Element* bias = nullptr;
  Accumulation accumulation = Accumulation::fast;
};

/// Unit roundoffs of a stored product and of its accumulation (reference::gemm_tolerance).
struct ProductErrors {
  double u_out, u_acc;
};

/// The target of a position that has no loss: its loss and its gradient are zero.
inline constexpr int no_target = -100;

struct AttentionShape {
  std::size_t batch, seq, heads, kv_heads, head_dim;
  bool causal = true;
};

/// The gain and shift of a norm. Null `shift`: RMSNorm.
template <class Element>
struct NormWeights {
  Element *gain = nullptr, *shift = nullptr;
};

/// One mean and one 1 / sqrt(variance + eps) for each row. If `mean` is null, this is RMSNorm, which uses a mean of 0.
template <class Master>
struct NormStatistics {
  Master *mean = nullptr, *rstd = nullptr;
};

/// Destinations of the gradients of a norm's weights. Null `gain`: not trained; null `shift`: RMSNorm.
template <class Master>
struct NormGradient {
  Master *gain = nullptr, *shift = nullptr;
  bool accumulate = false;  // add to the previous values
};

enum class Rotation { forward, backward };

/// Returns the contribution of value i of an array to its checksum. The factor is odd and different for every value.
/// Any change of one value, any swap of two different values, and any two flipped bits are therefore detected. The
/// digest takes a single multiplication, so a summary is limited by memory bandwidth.
constexpr std::uint64_t checksum_term(std::uint64_t bits, std::uint64_t i) { return bits * (2 * i + 1); }

/// Returns the pseudo-random signs in a projection of value i and the following values up to a multiple of four, from
/// the highest bit on. Four signs cost as much as one, so this is also limited by memory bandwidth.
constexpr std::uint32_t signs_from(std::uint64_t i) {
  const auto spread = static_cast<std::uint32_t>(i / 4) * 0x9E3779B1U;
  return (spread ^ spread >> 15) * 0x85EBCA77U << i % 4;
}
constexpr bool is_negative(std::uint32_t signs) { return signs >> 31 != 0; }

/// Summary of a gradient or of parameters, computed in one pass. A call adds to the previous values, so that an array
/// can be summarized in parts; the order of the parts does not change the bits of the two integers.
struct Summary {
  double squared_norm;       // sum of squares, in a fixed order; not finite if a value is not, or if it overflows
  std::uint64_t non_finite;  // values that are NaN or infinite
  std::uint64_t checksum;    // sum over i of (bits of value i) (2 (first + i) + 1), modulo 2^64; see checksum_term
  /// Sum over i of value i with the sign of first + i (signs_from), in a fixed order. The projection is linear, so the
  /// projection of a sum of arrays is the sum of their projections.
  double projection = 0;
};

inline Summary operator+(const Summary& a, const Summary& b) {
  return {a.squared_norm + b.squared_norm, a.non_finite + b.non_finite, a.checksum + b.checksum,
          a.projection + b.projection};
}

/// Summaries of a rank's share during a sum over ranks; the share begins at element `first` of a larger array. `before`
/// is of the rank's own values, `after` of the sum. `fetched` is of the values from all other ranks (only the
/// checksum), if ops.fetches_sums(). Null: not wanted.
struct ShareSummaries {
  std::size_t first = 0;
  Summary *before = nullptr, *after = nullptr, *fetched = nullptr;
};

/// The results of one step, kept on the device and read much later.
struct Record {
  double loss;           // mean over this rank's tokens of the step, before the update
  Summary local;         // gradient of this rank, before it is summed over ranks
  Summary reduced;       // gradient summed over ranks
  Summary updated;       // trainable parameters after the update, without projection
  Summary shared = {};   // the part of `updated` that all ranks of a tensor parallel group have
  Summary share = {};    // this rank's own share of `local`, if ranks share the state
  Summary fetched = {};  // values that other ranks sent for that share: only the checksum
};

/// One AdamW update (Loshchilov and Hutter 2019, arXiv 1711.05101), same as torch.optim.AdamW:
/// g' = clip g; p -= lr weight_decay p; m = beta1 m + (1 - beta1) g'; v = beta2 v + (1 - beta2) g'^2;
/// p -= lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps).
/// clip = min(1, max_norm / (norm + 1e-6)), same as torch.nn.utils.clip_grad_norm_.
struct AdamW {
  double lr = 2e-4, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01, max_norm = 1;
  std::uint64_t step = 1;  // number of this update, from 1
  std::uint64_t seed = 0;  // of the random numbers that round a Bf16State
};

/// The trainable parameters that this rank updates, their gradient and moments, each with `count` values. The gradient
/// array is larger if it is a part of the gradient of all parameters.
template <class Master>
struct FlatState {
  Master *parameters, *gradient, *first_moment, *second_moment;
  std::size_t count;
};

/// The same state if the weights that products read are the parameters: Elements that hold bf16 numbers, as do the
/// moments. An update rounds all three stochastically (rounding.hpp).
template <class Element, class Master>
struct Bf16State {
  Element* parameters;
  Master* gradient;
  Element *first_moment, *second_moment;
  std::size_t count;
};

/// One tensor of the flat array and the location of its Element copy: parameters[offset + r cols + c], times scale and
/// rounded once, is written to place(r, c). Also tells if weight decay applies to it.
template <class Element>
struct ParameterSlot {
  std::size_t offset;
  Matrix<Element> place;
  double scale;
  bool decays = true;
  std::size_t gradient_behind = 0;  // distance in values from `offset` to its gradient
  std::size_t position = 0;         // of its first value in the model (offsets_in_model)
};

/// Points in time of a step, which divide it into phases.
enum class Mark { begin, forward_begin, forward_end, backward_end, reduced, end };
inline constexpr std::size_t marks = 6;

// clang-format off
/// The set of operations. `const T*` inputs are on the device unless marked "host".
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
    const Bf16State<typename Ops::Element, typename Ops::Master>& bf16_state,
    const std::function<void()>& queue,
    const Choices& remembered, const TuningShare& share, Choices* chosen,
    Tilings* tilings, const std::string& name,
    const QuantizedGemm<typename Ops::Element>& quantized_product,
    const QuantizedGemm<typename Ops::Element, typename Ops::Master>& quantized_gradient_product,
    const QuantizedRows& rows) {

  // Setup. Operations of the setup may wait and allocate.

  /// Returns the bytes that the backend needs from the arena for this step: library workspaces, partial sums. May be 0.
  /// Constant for one Ops object, and known before any large allocation.
  { ops.workspace_bytes() } -> std::convertible_to<std::size_t>;
  /// Passes that slice to the backend; it must stay valid as long as the Ops object is used.
  ops.use_workspace(bytes);
  /// Allocates device memory, freed with the returned object; .data() is aligned to Arena::alignment. Errors: the
  /// backend's exception if there is not enough.
  { ops.allocate(n).data() } -> std::convertible_to<std::byte*>;
  /// Copy between host and device after all work queued before; complete on return.
  ops.copy_in(p, cp, n);       // device, host, bytes
  ops.copy_out(p, cp, n);      // host, device, bytes
  /// Allocates host memory that is suitable for fast copies to and from the device, and that every operation accepts in
  /// place of device memory. The memory is freed with the returned object, after its copies are complete. Errors:
  /// Unsupported if the host has less.
  { ops.host_memory(n).data() } -> std::convertible_to<std::byte*>;
  /// Starts a copy between that memory and the device, after all work queued before. There are two turns; `finish_copy`
  /// returns when the last copies of that turn are complete.
  ops.begin_copy(p, cp, n, n);  // to, from, bytes, turn
  ops.finish_copy(n);
  { Ops::to_element(x) } -> std::same_as<typename Ops::Element>;  // rounded to nearest even
  { Ops::to_double(*ce) } -> std::convertible_to<double>;
  /// Sets bytes of device memory (queued): 0, or 0xff, which is NaN in every floating-point type.
  ops.set_bytes(p, 0xff, n);
  /// Copies bytes within device memory (queued).
  ops.copy_bytes(p, cp, n);    // to, from, bytes
  /// Sets element (r, c) = stddev * normal((tensor << 32) + r * cols + c, stream 0) of reference.hpp, rounded once.
  ops.fill_normal(em, x, u);                // matrix, stddev, tensor
  /// Sets an array to normal values: value i is that of element numbers(first + i) of the tensor.
  ops.fill_normal(m, n, x, u, n, Numbers{});  // values, count, stddev, tensor, first, numbers
  /// Sets the locations of the Element copies of the trainable parameters; called once. `slots` are on the host,
  /// ordered by offset, and cover all parameters that this rank updates.
  ops.place_copies(slots);
  /// Runs `queue`, which queues the same work whenever the number is the same. A backend may record it the first time
  /// and launch it as a whole from then on. The work must have run once outside of `repeat`, and must not use other
  /// streams.
  ops.repeat(n, queue);
  /// Waits for all queued work.
  ops.synchronize();
  /// Creates the communicators over these ranks, and over the tensor parallel group if it has several ranks.
  /// Collective; called once before the first step.
  ops.connect(group, &group);
  /// The two calls begin and end the tuning of matrix products. Between the two calls, each new product of the share may
  /// try algorithms on its actual matrices, whose contents are lost, or time only its remembered choice. The second call
  /// is collective: all ranks adopt the choice of the rank that tuned a product. The choices are stored in `chosen`,
  /// and their tiles in `tilings`. The
  /// call returns false if a remembered choice is no longer good; tune again without it then. Errors of the second call:
  /// Unsupported, on all ranks together.
  ops.start_tuning(remembered, share);
  { ops.finish_tuning(group, chosen, tilings) } -> std::same_as<bool>;
  /// Returns the device memory in use by this process, in bytes, or by all processes if the device cannot distinguish
  /// them.
  { ops.used_bytes() } -> std::convertible_to<std::size_t>;
  /// Returns additional metrics of this rank about the implementation; may be empty.
  { ops.metrics() } -> std::same_as<Metrics>;

  // Products

  ops.gemm(product);
  ops.gemm(gradient_product);  // D in Master: gradients of weights

  ops.gemm(quantized_product);
  ops.gemm(quantized_gradient_product);
  /// Returns the unit roundoffs of a quantized product with a sum of n terms.
  { ops.quantized_errors(n, Accumulation::fast) } -> std::same_as<ProductErrors>;

  /// Quantize each row of a matrix, or each column, which becomes a row.
  ops.quantize(cem, rows);
  ops.quantize_transposed(cem, rows);
  /// Quantize again what has changed: the columns of a matrix from n on; or the rows from n on of a matrix whose columns
  /// are the quantized rows. See requantize_rows and requantize_transposed of quantize.hpp.
  ops.requantize(cem, n, rows);
  ops.requantize_transposed(cem, n, rows);

  /// to = from; same rows and cols.
  ops.copy(cem, em);

  // Layers

  /// Sets row i of out to row tokens[i] of table, plus row i mod seq of positions if given. A token below 0 belongs to
  /// another rank's part of the vocabulary, and its row is zero.
  ops.embedding(cem, ints, cem, n, em);     // table, tokens, positions, seq, out
  /// Adds row i of dx to row tokens[i] of d_table, in the order of i. `order` has the indices of all rows of dx sorted
  /// by token; rows of the same token are in order. Rows with a token below 0 are ignored.
  ops.embedding_backward(cem, ints, ints, mm);           // dx, tokens, order, d_table
  /// n = (x - mean) rstd gain + shift, row by row: LayerNorm, with the mean and variance of x over the row. Without
  /// shift and mean it is RMSNorm, with rstd = 1 / sqrt(mean(x^2) + eps).
  ops.norm(cem, weights, x, em, stats);     // x, weights, eps, n, statistics
  /// Computes dx = (accumulate ? dx : 0) + the gradient of x from the gradient dn of n. With g = dn gain and y = (x -
  /// mean) rstd it is rstd (g - mean(g) - y mean(g y)); for RMSNorm without mean(g). If the matrix n has data, writes n
  /// again, with the same bits as norm. dn and n may be the same memory only if n is not wanted; dn and dx may be the
  /// same memory. If the norm's weights are trained: d_gain = (accumulate ? d_gain : 0) + sum over rows of dn y, and
  /// d_shift likewise with dn.
  ops.norm_backward(cem, cem, weights, stats, flag, em, em, norm_gradient);  // dn, x, ..., accumulate, dx, n, gradients
  /// sums = (accumulate ? sums : 0) + sum over rows of dy: the gradient of a bias.
  ops.sum_rows(cem, flag, m);                            // dy, accumulate, sums
  /// Rotates the query and key heads of qkv ([q heads | k heads | v heads] x head_dim per row) in place. Row t has
  /// position p = t mod seq. Pair (i, i + head_dim / 2) of a head is rotated by the angle with cosine table[p head_dim
  /// + i] and sine table[p head_dim + head_dim / 2 + i]; backward by the negative angle.
  ops.rope(em, cm, shape, Rotation::forward);
  /// Attention of packed q, k, v with scale 1 / sqrt(head_dim), causal or over all positions of a sequence. Query head
  /// h uses key head h kv_heads / heads. o: rows x (heads head_dim); lse[(b heads + h) seq + t] = log of the sum of exp
  /// of the scaled scores.
  ops.attention(cem, em, m, shape);                        // qkv, o, lse
  /// Computes the gradient of the packed q, k, v from that of o.
  ops.attention_backward(cem, cem, cm, cem, em, shape);    // qkv, o, lse, d_o, d_qkv
  /// gu = [gate | up]: h = gate sigmoid(gate) up.
  ops.swiglu(cem, em);
  /// In place: [gate | up] becomes [d gate | d up]. dh becomes h (the same bits as swiglu) if emit_h, otherwise it is
  /// unchanged.
  ops.swiglu_backward(em, em, flag);                       // gu, dh, emit_h
  /// h = gelu(u) = u/2 (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))).
  ops.gelu(cem, em);
  /// In place: u becomes its gradient. dh becomes h (the same bits as gelu) if emit_h, otherwise it is unchanged.
  ops.gelu_backward(em, em, flag);                         // u, dh, emit_h
  /// In place: logits become scale (softmax - onehot(target)); losses[i] = -log softmax of the target in row i. Both are
  /// zero in a row with no_target. In a tensor parallel group each rank has the logits of its part of the vocabulary,
  /// and the target -1 if another rank has it. The softmax covers the logits of all of them, and all get the same
  /// losses.
  ops.cross_entropy(em, ints, x, m);                       // logits, targets, scale, losses
  /// *to += scale sum of values, in a fixed order.
  ops.add_sum(cm, n, x, dx);                               // values, count, scale, to

  // Between the ranks of a tensor parallel group, in the order of the queue. `all` has the rows of all their tokens
  // without gaps, rank after rank.

  /// Copies each rank's rows of `all` to every other rank's `all`.
  ops.gather_tokens(em);
  /// own = the sum over ranks of this rank's rows of `all`; may be these rows. The other content of `all` is lost.
  ops.scatter_tokens(em, em);                              // all, own
  /// Replace each value, or the summary, by its sum over ranks, with the same bits on all of them.
  ops.sum_together(m, n);
  ops.sum_together(summary);

  // Gradients and parameters

  /// Adds a summary of values[0..count), which are the elements from `first` on of a larger array, to *summary.
  ops.summarize(cm, n, n, summary);                        // values, first, count, summary
  ops.summarize(ce, n, n, summary);
  /// Updates parameters and moments from slot `first` on, and writes their Element copies. Changes nothing if the
  /// gradient's summary has values or a norm that are not finite. Adds a summary of the updated parameters to the other
  /// summary.
  ops.adamw(state, AdamW{}, csummary, summary, n, n);      // state, settings, of gradient, of parameters, first, slots
  /// Does the same with a state in bf16, whose parameters have no copies.
  ops.adamw(bf16_state, AdamW{}, csummary, summary, n, n);
  /// to = from, each value rounded to the nearest bf16 number.
  ops.round_to_bf16(cm, e, n);                             // from, to, count
  /// Writes the Element copies of the parameters to their slots.
  ops.write_copies(cm);
  /// Sums values[0..count) over ranks, in place, on a second stream. The sum starts after all work queued before, and
  /// runs concurrently with later work. Does nothing for one rank.
  ops.all_reduce(m, n);
  /// Sums a summary over ranks, in the same way.
  ops.all_reduce(summary);
  /// reduce_scatter and all_gather also run on the second stream. reduce_scatter: `own` becomes, or is increased by,
  /// rank r's share of the sum over ranks, of all[r count + i]; the other content of `all` is lost. reduce_scatter adds
  /// to the summaries; only this operation may write the second one until it is complete. all_gather: `all` becomes the
  /// shares of all ranks, one after another. A share may be at its own place in `all`. reduce_scatter and all_gather
  /// return a ticket for `wait`: work queued after the wait starts when the operation is complete.
  { ops.reduce_scatter(m, m, n, flag, told) } -> std::same_as<std::size_t>;  // all, own, count of a share, add
  /// True if a rank reads the other ranks' values of its share and therefore summarizes them; false if it only gets the
  /// sum.
  { ops.fetches_sums() } -> std::same_as<bool>;
  /// Returns the name of the attention implementation; another implementation gives other bits.
  { ops.attention_name() } -> std::same_as<std::string>;

  /// Returns the software that takes the place of the usual one (Work::fallback); empty: none.
  { ops.fallback() } -> std::same_as<std::string>;
  /// True if equal inputs give equal bits each time.
  { ops.is_deterministic() } -> std::same_as<bool>;
  { ops.all_gather(ce, e, n) } -> std::same_as<std::size_t>;      // own, all, count of a share
  ops.wait(n);
  /// Synchronizes the ranks if they fetch the shares of others directly, on a separate stream; all ranks have the same
  /// memory layout. Later gathers, and work after the next join, then start after all ranks have arrived here and
  /// completed the work they queued before; for their gathers, only if they have joined them. Collective. Does nothing
  /// if all_gather synchronizes all ranks.
  ops.meet();
  /// Later work starts after all work on other streams is complete.
  ops.join_reductions();
  /// Records the time at which the work queued before is complete; the last record of each kind is used.
  ops.mark(Mark::begin);
  /// Returns the milliseconds between two marks; waits.
  { ops.milliseconds(Mark::begin, Mark::end) } -> std::convertible_to<double>;
  /// Returns the milliseconds between the last Mark::begin and Mark::end in which the compute stream waited for sums and
  /// gathers on other streams; waits. Includes some microseconds for each such wait; 0 for one rank.
  { ops.exchange_wait() } -> std::convertible_to<double>;
  /// Records a time like mark does. The numbers of a series of points begin with 0 and increase by 1.
  ops.record_point(n);
  /// Returns the milliseconds from one of these points to another; waits.
  { ops.milliseconds_between(n, n) } -> std::convertible_to<double>;
  /// Starts to record the times of kernels by part, if the backend can.
  ops.start_kernel_times();
  /// Begin and end a part of a profiled step. Parts are numbered from 0. Profilers that listen show the part.
  ops.begin_part(name, PartClass::gemm, n);
  ops.end_part();
  /// Ends the recording, and returns the milliseconds of the kernels by part; all work must be complete. nullopt if they
  /// are unknown.
  { ops.kernel_times(n) } -> std::same_as<std::optional<std::vector<double>>>;
  /// Returns the processor cycles during the work that `queue` queues; waits. Returns nullopt if the backend cannot
  /// count them.
  { ops.cycles(queue) } -> std::same_as<std::optional<double>>;
};
// clang-format on

}  // namespace shakedown::training
