// Operations of a training step: products by cuBLASLt, attention by cuDNN, the rest by our own kernels. Sums over ranks
// use NCCL, or copy engines if ranks share the state and can map each other's memory. One file implements all of
// transformer/ops.hpp, as for the host.
#include "kernels/transformer/cuda/cuda_ops.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/facts.hpp"
#include "kernels/cuda/gemm_type.hpp"
#include "kernels/cuda/ranges.hpp"
#include "kernels/transformer/attention_choice.hpp"
#include "kernels/transformer/cuda/quantize.hpp"

namespace shakedown::cuda {

namespace {

using training::Mark;

constexpr std::size_t alignment = training::Arena::alignment;

std::size_t rounded(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Throws unless all sizes suit the kernels, which process eight elements at a time, or eight pairs in a rotation.
void require_whole_vectors(const training::StepShape& shape) {
  const auto m = shape.part();
  const auto require = [](const char* what, std::size_t value, std::size_t divisor) {
    if (value % divisor == 0) return;
    throw Unsupported(std::string("CUDA needs ") + what + " divisible by " + std::to_string(divisor) + ", not " +
                      std::to_string(value));
  };
  require("a hidden size", m.hidden, vector_width);
  require("an intermediate size", m.intermediate, vector_width);
  require("a vocabulary", m.vocab, vector_width);
  require("a head size", m.head_dim, 2 * vector_width);
  if (shape.quantized) {
    constexpr std::size_t float8_vector = 16;  // cuBLASLt needs rows of whole vectors of 16 bytes
    require("a hidden size", m.hidden, float8_vector);
    require("an intermediate size", m.intermediate, float8_vector);
    if (shape.trains == training::Trains::adapters) {
      require("a rank of the adapters", shape.lora.rank, float8_vector);
    } else {
      require("a number of tokens in a micro-batch", shape.tokens(), float8_vector);  // rows of the gradient's products
    }
  }
  if (shape.trains == training::Trains::adapters) require("a rank of the adapters", shape.lora.rank, vector_width);
}

/// Returns the attention shape with the row strides of buffers.hpp.
AttentionShape attention_shape(const training::StepShape& s) {
  const auto m = s.part();
  const auto room = [&](training::Linear linear) { return training::fused(m, s.lora, linear).rank_total; };
  return {static_cast<int>(s.batch),
          static_cast<int>(s.seq),
          static_cast<int>(m.heads),
          static_cast<int>(m.kv_heads),
          static_cast<int>(m.head_dim),
          m.qkv_width(),
          m.q_width() + room(training::Linear::o),
          m.q_width(),
          m.qkv_width() + room(training::Linear::qkv),
          m.causal};
}

std::unique_ptr<Attention> make_attention(const AttentionShape& shape, const CudaOpsSettings& settings) {
  if (settings.attention == AttentionKind::plain) return make_plain_attention(shape);
  if (settings.attention == AttentionKind::cudnn) return make_cudnn_attention(shape, settings.deterministic);
  return training::choose_attention([&](bool deterministic) { return make_cudnn_attention(shape, deterministic); },
                                    cudnn_version());
}

/// Returns the largest number of gradients in a sum. A sum starts when a bucket is full, which is checked before the
/// attention of each layer. A sum exceeds the bucket by less than the gradients that become complete between two
/// checks.
std::size_t most_gradients_of_a_sum(const training::StepShape& shape) {
  const auto layout = shape.layout();
  const auto& tensors = layout.tensors;
  const std::size_t all = layout.count();
  if (shape.shard != training::Shard::none) {
    const auto smaller = [](const training::Unit& a, const training::Unit& b) { return a.size < b.size; };
    return std::max_element(layout.units.begin(), layout.units.end(), smaller)->size;
  }
  std::size_t before = 0, most = 0;
  for (std::size_t l = shape.model.layers; l-- > 0;) {
    const auto complete = training::complete_before_attention(tensors, shape.model, l);
    most = std::max(most, complete - std::exchange(before, complete));
  }
  return shape.bucket == 0 ? all : std::min(all, shape.bucket + std::max(most, all - before));
}

/// Returns the number of values that copy engines fetch at a time from each other rank, a multiple of 64: 128 MB from
/// all ranks together, or less if a rank's share of a unit is smaller.
std::size_t most_fetched_of_a_rank(const training::StepShape& shape) {
  constexpr std::size_t all = std::size_t{1} << 25, line = 64;
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  return std::min(most_gradients_of_a_sum(shape) / ranks, all / (ranks - 1)) / line * line;
}

/// Splits a slot into segments of whole rows, or of a part of one row. Segments share the blocks of a launch equally,
/// so a large tensor needs several.
std::vector<Segment> segments_of(const training::ParameterSlot<Bf16>& slot) {
  constexpr std::size_t max_segment_values = std::size_t{1} << 22;
  const auto cols = std::min(max_segment_values, slot.place.cols),
             rows = std::max<std::size_t>(1, max_segment_values / slot.place.cols);
  std::vector<Segment> segments;
  for (std::size_t row = 0; row < slot.place.rows; row += rows) {
    for (std::size_t col = 0; col < slot.place.cols; col += cols) {
      const auto place =
          slot.place.block(row, col, std::min(rows, slot.place.rows - row), std::min(cols, slot.place.cols - col));
      segments.push_back({slot.offset + row * slot.place.cols + col, place, static_cast<float>(slot.scale), slot.decays,
                          slot.gradient_behind, slot.position + row * slot.place.cols + col});
    }
  }
  return segments;
}

std::size_t segments_of(const training::StepShape& shape) {
  const bool adapters = shape.trains == training::Trains::adapters;
  const auto tensors = shape.tensors();
  std::size_t count = 0;
  for (const auto& piece : shape.pieces()) {
    const auto& t = tensors[piece.tensor];
    const auto rows = adapters ? t.rows : 1, cols = adapters ? t.cols : piece.count;
    count += segments_of({0, {nullptr, rows, cols, cols}, 1}).size();
  }
  return count;
}

/// Returns the number of partial sums for the widest gradient of a bias or norm except the head, which has enough
/// columns for all multiprocessors; 0 if none is trained.
std::size_t column_partials(const training::StepShape& shape, std::size_t most_parts) {
  if (shape.trains == training::Trains::adapters) return 0;
  const auto m = shape.part();
  const auto layers = ColumnPartials::wanted(std::max({m.hidden, m.qkv_width(), m.mlp_width()}), most_parts);
  return std::max({layers, 2 * m.vocab, 2 * shape.seq * m.hidden});
}

void sum(training::Summary* summary, const Communicator& over, cudaStream_t stream) {
  static_assert(offsetof(training::Summary, checksum) == offsetof(training::Summary, non_finite) + 8);
  auto* const norm = &summary->squared_norm;
  auto* const counts = &summary->non_finite;
  auto* const projection = &summary->projection;
  check(ncclGroupStart());
  check(ncclAllReduce(norm, norm, 1, ncclFloat64, ncclSum, over.get(), stream));
  check(ncclAllReduce(counts, counts, 2, ncclUint64, ncclSum, over.get(), stream));
  check(ncclAllReduce(projection, projection, 1, ncclFloat64, ncclSum, over.get(), stream));
  check(ncclGroupEnd());
}

template <std::size_t count>
std::array<Event, count> make_events() {
  std::array<Event, count> events;
  for (auto& event : events) event = make_event();
  return events;
}

/// Returns the milliseconds between two events; waits for the second.
double elapsed(const Event& begin, const Event& end) {
  check(cudaEventSynchronize(end.get()));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return static_cast<double>(milliseconds);
}

}  // namespace

SideStream::SideStream(Stream stream) : stream_(std::move(stream)), done_(make_events<64>()) {}

cudaStream_t SideStream::behind(cudaStream_t first) {
  check(cudaEventRecord(before_.get(), first));
  check(cudaStreamWaitEvent(stream_.get(), before_.get()));
  busy_ = true;
  return stream_.get();
}

std::size_t SideStream::ticket() {
  check(cudaEventRecord(done_[tickets_ % done_.size()].get(), stream_.get()));
  return tickets_++;
}

void SideStream::wait(cudaStream_t later, std::size_t ticket) {
  check(cudaStreamWaitEvent(later, done_[ticket % done_.size()].get()));
}

void SideStream::join(cudaStream_t later) {
  if (!busy_) return;
  check(cudaEventRecord(last_.get(), stream_.get()));
  check(cudaStreamWaitEvent(later, last_.get()));
  busy_ = false;
}

CudaOps::CudaOps(const Gpu& gpu, Communicators* communicators, const training::StepShape& shape,
                 const CudaOpsSettings& settings)
    : gpu_(gpu),
      communicators_(communicators),
      ranks_(shape.ranks),
      rank_(shape.rank),
      tensor_(shape.tensor),
      tensor_rank_(shape.tensor_rank),
      shares_state_(shape.ranks > 1 && shape.shard != training::Shard::none),
      products_(gpu),
      most_slots_(segments_of(shape)),
      most_partials_(partials_needed(most_slots_)),
      columns_{nullptr, column_partials(shape, column_parts(gpu.multiprocessors())),
               column_parts(gpu.multiprocessors())},
      most_logit_parts_(
          tensor_ == 1 ? 0 : static_cast<std::size_t>(tensor_ + 1) * std::min(shape.tokens(), shape.loss_chunk)),
      // Late weights stall the step immediately; sums of gradients are only needed at its end.
      reductions_(shape.shard == training::Shard::weights ? make_first_stream() : make_stream()),
      copies_(make_first_stream()),
      met_(sizeof(int)),
      copied_(make_events<2>()),
      marks_(make_events<training::marks>()),
      counter_(gpu) {
  require_whole_vectors(shape);
  if (ranks_ * tensor_ > 1 && communicators_ == nullptr)
    throw std::invalid_argument("several ranks need a communicator");
  attention_ = make_attention(attention_shape(shape), settings);
  if (shape.sums != DType::f32 && shape.sums != DType::bf16) {
    throw Unsupported("CUDA sums gradients in f32 or bf16, not " + std::string(name(shape.sums)));
  }
  gpu_.fill(met_, 0);
  if (ranks_ > 1 && shape.sums == DType::bf16) most_summed_ = most_gradients_of_a_sum(shape);
  if (shares_state_) {
    const auto share = most_gradients_of_a_sum(shape) / static_cast<std::size_t>(ranks_);
    if (most_summed_ == 0) most_fetched_ = most_fetched_of_a_rank(shape);
    most_told_ = summarizing_blocks * (most_fetched_ == 0 ? 1 : (share + most_fetched_ - 1) / most_fetched_);
  }
}

// Set-up --------------------------------------------------------------------------------------------------------------

std::size_t CudaOps::workspace_bytes() const {
  return Products::workspace_bytes + rounded(attention_->workspace_bytes()) +
         rounded(most_partials_ * sizeof(training::Summary)) + rounded(most_slots_ * sizeof(Segment)) +
         rounded(columns_.count * sizeof(float)) + rounded(most_logit_parts_ * sizeof(LogitPart)) +
         rounded(most_summed_ * sizeof(Bf16)) +
         rounded(static_cast<std::size_t>(ranks_ - 1) * most_fetched_ * sizeof(Master)) +
         rounded(3 * most_told_ * sizeof(training::Summary));
}

void CudaOps::use_workspace(std::byte* at) {
  const auto take = [&](std::size_t bytes) {
    auto* const slice = at;
    at += rounded(bytes);
    return slice;
  };
  products_.use_workspace(take(Products::workspace_bytes));
  attention_workspace_ = take(attention_->workspace_bytes());
  partials_ = reinterpret_cast<training::Summary*>(take(most_partials_ * sizeof(training::Summary)));
  segments_ = reinterpret_cast<Segment*>(take(most_slots_ * sizeof(Segment)));
  columns_.at = reinterpret_cast<float*>(take(columns_.count * sizeof(float)));
  logit_parts_ = reinterpret_cast<LogitPart*>(take(most_logit_parts_ * sizeof(LogitPart)));
  rounded_ = reinterpret_cast<Bf16*>(take(most_summed_ * sizeof(Bf16)));
  fetched_ = reinterpret_cast<Master*>(take(static_cast<std::size_t>(ranks_ - 1) * most_fetched_ * sizeof(Master)));
  told_ = reinterpret_cast<training::Summary*>(take(3 * most_told_ * sizeof(training::Summary)));
}

CudaOps::Memory CudaOps::allocate(std::size_t bytes) {
  require_memory(bytes);
  if (!shares_state_) return {Buffer(bytes), nullptr};
  Memory memory{Buffer(bytes, Buffer::shareable), nullptr};
  memory.peers = std::make_unique<PeerArenas>(memory.data());
  peers_ = memory.peers.get();
  return memory;
}

void CudaOps::begin_copy(void* to, const void* from, std::size_t bytes, std::size_t turn) const {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu_.stream()));
  check(cudaEventRecord(copied_[turn].get(), gpu_.stream()));
}
void CudaOps::finish_copy(std::size_t turn) const { check(cudaEventSynchronize(copied_[turn].get())); }

void CudaOps::set_bytes(void* device, int value, std::size_t bytes) const {
  check(cudaMemsetAsync(device, value, bytes, gpu_.stream()));
}

void CudaOps::copy_bytes(void* to, const void* from, std::size_t bytes) const {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu_.stream()));
}

/// Records a step as a graph and replays it. A step of GPT-2 launches some 1,200 kernels, many of a few microseconds. A
/// graph launches them closer together, independent of the speed of the host.
void CudaOps::repeat(std::size_t which, const std::function<void()>& queue) {
  auto& recording = recordings_.at(which);
  recording.record(gpu_.stream(), 1, queue);
  recording.replay(gpu_.stream(), 1);
}

void CudaOps::fill_normal(Matrix<Element> to, double stddev, std::uint64_t tensor) const {
  cuda::fill_normal(gpu_.stream(), to, stddev, tensor);
}
void CudaOps::fill_normal(Master* values, std::size_t count, double stddev, std::uint64_t tensor, std::size_t first,
                          const training::Numbers& numbers) const {
  cuda::fill_normal(gpu_.stream(), Matrix<float>{values, 1, count, count}, stddev, tensor, first, numbers);
}

void CudaOps::place_copies(std::span<const training::ParameterSlot<Element>> slots) {
  std::vector<Segment> segments;
  first_segment_ = {0};
  for (const auto& slot : slots) {
    const auto more = segments_of(slot);
    segments.insert(segments.end(), more.begin(), more.end());
    first_segment_.push_back(segments.size());
  }
  if (segments.size() > most_slots_) throw std::invalid_argument("more parameters than the shape has");
  if (!segments.empty()) gpu_.write(segments_, segments.data(), segments.size() * sizeof(Segment));
}

/// Even a single rank connects, because a collective Work waits through the communicator.
void CudaOps::connect(Group& group, Group* together) {
  if (group.size() != ranks_ || (together == nullptr ? 1 : together->size()) != tensor_) {
    throw std::invalid_argument("a step planned for another number of ranks");
  }
  if (communicators_ != nullptr) communicator_ = &communicators_->of(group, tensor_ == 1).communicator;
  if (together != nullptr) together_ = &communicators_->of(*together, false).communicator;
  if (peers_ != nullptr) peers_->connect(group);
}

std::size_t CudaOps::used_bytes() const {
  std::size_t available = 0, total = 0;
  check(cudaMemGetInfo(&available, &total));
  return total - available;
}

std::string CudaOps::fallback() const {
  if (attention_->name() == "plain") return "attention by plain kernels in place of cuDNN";
  return is_deterministic() ? "" : "attention with a gradient that is not deterministic, as cuDNN has no other here";
}

Metrics CudaOps::metrics() const { return {{"cudnn_attention", attention_->name() == "plain" ? 0 : 1}}; }

// Products ------------------------------------------------------------------------------------------------------------

void CudaOps::gemm(const training::Gemm<Element, Element>& g) { products_.multiply(g); }
void CudaOps::gemm(const training::Gemm<Element, Master>& g) { products_.multiply(g); }
void CudaOps::gemm(const training::QuantizedGemm<Element>& product) { products_.multiply(product); }
void CudaOps::gemm(const training::QuantizedGemm<Element, Master>& product) { products_.multiply(product); }

training::ProductErrors CudaOps::quantized_errors(std::size_t inner, training::Accumulation accumulation) {
  const auto k = static_cast<int>(inner);
  const auto type =
      gemm_type({.dtype = DType::fp8_e4m3,
                 .m = 16,
                 .n = 16,
                 .k = k,
                 .accumulate = accumulation == training::Accumulation::fast ? Accumulate::fast : Accumulate::exact});
  return {u_out_of(type, k), type.u_acc};
}

void CudaOps::quantize(Matrix<const Element> x, const training::QuantizedRows& to) {
  cuda::quantize(gpu_.stream(), x, quantized(to));
}
void CudaOps::quantize_transposed(Matrix<const Element> x, const training::QuantizedRows& to) {
  cuda::quantize_transposed(gpu_.stream(), x, quantized(to));
}
void CudaOps::requantize_transposed(Matrix<const Element> x, std::size_t first, const training::QuantizedRows& to) {
  cuda::requantize_transposed(gpu_.stream(), x, first, quantized(to));
}
void CudaOps::requantize(Matrix<const Element> x, std::size_t first, const training::QuantizedRows& to) {
  cuda::requantize(gpu_.stream(), x, first, quantized(to));
}

void CudaOps::copy(Matrix<const Element> from, Matrix<Element> to) { copy_rows(gpu_.stream(), from, to); }

// Layers --------------------------------------------------------------------------------------------------------------

void CudaOps::embedding(Matrix<const Element> table, const int* tokens, Matrix<const Element> positions,
                        std::size_t seq, Matrix<Element> x) {
  embed(gpu_.stream(), table, tokens, positions, seq, x);
}
void CudaOps::embedding_backward(Matrix<const Element> dx, const int* tokens, const int* order,
                                 Matrix<Master> d_table) {
  embed_backward(gpu_.stream(), dx, tokens, order, d_table);
}

void CudaOps::norm(Matrix<const Element> x, const NormWeights& weights, double eps, Matrix<Element> n,
                   const NormStatistics& statistics) {
  cuda::norm(gpu_.stream(), x, weights, static_cast<float>(eps), n, statistics);
}
void CudaOps::norm_backward(Matrix<const Element> dn, Matrix<const Element> x, const NormWeights& weights,
                            const NormStatistics& statistics, bool accumulate, Matrix<Element> dx, Matrix<Element> n,
                            const NormGradient& gradient) {
  cuda::norm_backward(gpu_.stream(), dn, x, weights, statistics, accumulate, dx, n, gradient, columns_);
}
void CudaOps::sum_rows(Matrix<const Element> dy, bool accumulate, Master* sums) {
  cuda::sum_rows(gpu_.stream(), dy, accumulate, sums, columns_);
}

void CudaOps::rope(Matrix<Element> qkv, const Master* table, training::AttentionShape shape,
                   training::Rotation rotation) {
  cuda::rope(gpu_.stream(), qkv, table, shape, rotation);
}

void CudaOps::attention(Matrix<const Element> qkv, Matrix<Element> o, Master* lse, training::AttentionShape) {
  attention_->forward(gpu_.stream(), qkv.data, o.data, lse, attention_workspace_);
}
void CudaOps::attention_backward(Matrix<const Element> qkv, Matrix<const Element> o, const Master* lse,
                                 Matrix<const Element> d_o, Matrix<Element> d_qkv, training::AttentionShape) {
  attention_->backward(gpu_.stream(), qkv.data, o.data, lse, d_o.data, d_qkv.data, attention_workspace_);
}

void CudaOps::swiglu(Matrix<const Element> gate_up, Matrix<Element> h) { cuda::swiglu(gpu_.stream(), gate_up, h); }
void CudaOps::swiglu_backward(Matrix<Element> gate_up, Matrix<Element> dh, bool emit_h) {
  cuda::swiglu_backward(gpu_.stream(), gate_up, dh, emit_h);
}

void CudaOps::gelu(Matrix<const Element> u, Matrix<Element> h) { cuda::gelu(gpu_.stream(), u, h); }
void CudaOps::gelu_backward(Matrix<Element> u, Matrix<Element> dh, bool emit_h) {
  cuda::gelu_backward(gpu_.stream(), u, dh, emit_h);
}

void CudaOps::cross_entropy(Matrix<Element> logits, const int* targets, double scale, Master* losses) {
  const auto factor = static_cast<float>(scale);
  if (tensor_ == 1) return cuda::cross_entropy(gpu_.stream(), logits, targets, factor, losses);
  auto* const all = logit_parts_ + logits.rows;
  logit_parts(gpu_.stream(), logits, targets, logit_parts_);
  static_assert(sizeof(LogitPart) == 3 * sizeof(float));
  check(ncclAllGather(logit_parts_, all, 3 * logits.rows, ncclFloat32, together_->get(), gpu_.stream()));
  cuda::cross_entropy(gpu_.stream(), logits, targets, factor, losses, all, tensor_);
}
void CudaOps::add_sum(const Master* values, std::size_t count, double scale, double* to) {
  cuda::add_sum(gpu_.stream(), values, count, scale, to);
}

// Between the ranks of a tensor parallel group

void CudaOps::gather_tokens(Matrix<Element> all) {
  const auto count = all.rows / static_cast<std::size_t>(tensor_) * all.cols;
  const auto* const own = all.data + static_cast<std::size_t>(tensor_rank_) * count;
  check(ncclAllGather(own, all.data, count, ncclBfloat16, together_->get(), gpu_.stream()));
}

void CudaOps::scatter_tokens(Matrix<Element> all, Matrix<Element> own) {
  check(ncclReduceScatter(all.data, own.data, own.rows * own.cols, ncclBfloat16, ncclSum, together_->get(),
                          gpu_.stream()));
}

void CudaOps::sum_together(Master* values, std::size_t count) {
  check(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, together_->get(), gpu_.stream()));
}

void CudaOps::sum_together(training::Summary* summary) { sum(summary, *together_, gpu_.stream()); }

// Gradients and parameters --------------------------------------------------------------------------------------------

void CudaOps::summarize(const Master* values, std::size_t first, std::size_t count, training::Summary* summary) {
  cuda::summarize(gpu_.stream(), values, first, count, partials_, summary, gpu_.properties().f64);
}
void CudaOps::summarize(const Element* values, std::size_t first, std::size_t count, training::Summary* summary) {
  cuda::summarize(gpu_.stream(), values, first, count, partials_, summary, gpu_.properties().f64);
}
void CudaOps::adamw(const training::FlatState<Master>& state, const training::AdamW& settings,
                    const training::Summary* gradient, training::Summary* updated, std::size_t first,
                    std::size_t slots) {
  const auto begin = first_segment_[first], end = first_segment_[first + slots];
  cuda::adamw(gpu_.stream(), segments_ + begin, end - begin, state, settings, gradient, partials_, updated);
}
void CudaOps::adamw(const training::Bf16State<Element, Master>& state, const training::AdamW& settings,
                    const training::Summary* gradient, training::Summary* updated, std::size_t first,
                    std::size_t slots) {
  const auto begin = first_segment_[first], end = first_segment_[first + slots];
  cuda::adamw(gpu_.stream(), segments_ + begin, end - begin, state, settings, gradient, partials_, updated);
}
void CudaOps::round_to_bf16(const Master* from, Element* to, std::size_t count) {
  cuda::round_to_bf16(gpu_.stream(), from, to, count);
}
void CudaOps::write_copies(const Master* parameters) {
  cuda::write_copies(gpu_.stream(), segments_, first_segment_.back(), parameters);
}

/// Waits for a ticket; even tickets belong to one stream, odd ones to the other.
void CudaOps::wait(std::size_t ticket) {
  queue_wait([&] { (ticket % 2 == 0 ? reductions_ : copies_).wait(gpu_.stream(), ticket / 2); });
}

void CudaOps::all_reduce(Master* values, std::size_t count) {
  if (ranks_ == 1) return;
  auto* const stream = reductions_.behind(gpu_.stream());
  if (most_summed_ == 0) {
    check(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, communicator_->get(), stream));
    return;
  }
  if (count > most_summed_) throw std::logic_error("a sum of more gradients than was planned for");
  cuda::round_to_bf16(stream, values, rounded_, count);
  check(ncclAllReduce(rounded_, rounded_, count, ncclBfloat16, ncclSum, communicator_->get(), stream));
  widen_to_f32(stream, rounded_, values, count);
}

void CudaOps::all_reduce(training::Summary* summary) {
  sum(summary, *communicator_, reductions_.behind(gpu_.stream()));
}

std::size_t CudaOps::reduce_scatter(Master* all, Master* own, std::size_t count, bool add,
                                    const training::ShareSummaries& told) {
  if (fetches_sums()) return fetch_sums(all, own, count, add, told);
  const auto mine = static_cast<std::size_t>(rank_) * count, whole = count * static_cast<std::size_t>(ranks_);
  if (told.before != nullptr) summarize(all + mine, told.first, count, told.before);
  auto* const stream = reductions_.behind(gpu_.stream());
  auto* const share = add ? all + mine : own;
  if (most_summed_ == 0) {
    check(ncclReduceScatter(all, share, count, ncclFloat32, ncclSum, communicator_->get(), stream));
  } else {
    if (whole > most_summed_) throw std::logic_error("a sum of more gradients than was planned for");
    cuda::round_to_bf16(stream, all, rounded_, whole);
    check(ncclReduceScatter(rounded_, rounded_ + mine, count, ncclBfloat16, ncclSum, communicator_->get(), stream));
    widen_to_f32(stream, rounded_ + mine, share, count);
  }
  if (add) add_f32(stream, share, own, count);
  if (told.after != nullptr) {
    cuda::summarize(stream, own, told.first, count, told_, told.after, gpu_.properties().f64);
  }
  return 2 * reductions_.ticket();
}

/// Fetches the other ranks' gradients of this rank's share with copy engines. A kernel adds each piece as it arrives,
/// in the order of ranks, and summarizes it. NCCL's kernels would occupy a fifth of the multiprocessors while they wait
/// for the link. No rank continues until all have read each other's data.
std::size_t CudaOps::fetch_sums(const Master* all, Master* own, std::size_t count, bool add,
                                const training::ShareSummaries& told) {
  auto* const stream = copies_.behind(met_behind(gpu_.stream()));
  const auto* const mine = all + static_cast<std::size_t>(rank_) * count;
  std::size_t partials = 0;
  const auto partly = [&](training::Summary* asked, std::size_t which) {
    return asked == nullptr ? nullptr : told_ + which * most_told_ + partials;
  };
  for (std::size_t first = 0; first < count; first += most_fetched_, partials += summarizing_blocks) {
    const auto some = std::min(most_fetched_, count - first);
    for (int i = 1; i < ranks_; ++i) {  // the order is the same as in all_gather
      const int rank = (rank_ + i) % ranks_;
      auto* const to = fetched_ + static_cast<std::size_t>(rank < rank_ ? rank : rank - 1) * most_fetched_;
      check(cudaMemcpyAsync(to, peers_->of(rank, mine + first), some * sizeof(Master), cudaMemcpyDefault, stream));
    }
    sum_f32(stream, mine + first, {fetched_, most_fetched_, ranks_, rank_}, own + first, some, add,
            {told.first + first, partly(told.before, 0), partly(told.after, 1), partly(told.fetched, 2)},
            gpu_.properties().f64);
  }
  if (told.before != nullptr) add_partials(stream, told_, partials, told.before);
  if (told.after != nullptr) add_partials(stream, told_ + most_told_, partials, told.after);
  if (told.fetched != nullptr) add_partials(stream, told_ + 2 * most_told_, partials, told.fetched);
  met_behind(stream);
  return 2 * reductions_.ticket();
}

std::size_t CudaOps::all_gather(const Element* own, Element* all, std::size_t count) {
  const auto place = [&](int rank) { return all + static_cast<std::size_t>(rank) * count; };
  if (!fetches()) {
    auto* const stream = reductions_.behind(gpu_.stream());
    check(ncclAllGather(own, all, count, ncclBfloat16, communicator_->get(), stream));
    return 2 * reductions_.ticket();
  }
  auto* const stream = copies_.behind(gpu_.stream());
  // Each rank starts with the rank after it, so that no rank serves all others at once.
  for (int i = 1; i < ranks_; ++i) {
    const int rank = (rank_ + i) % ranks_;
    const auto* const there = own == place(rank_) ? place(rank) : own;
    check(cudaMemcpyAsync(place(rank), peers_->of(rank, there), count * sizeof(Element), cudaMemcpyDefault, stream));
  }
  if (own != place(rank_)) {
    check(cudaMemcpyAsync(place(rank_), own, count * sizeof(Element), cudaMemcpyDeviceToDevice, stream));
  }
  return 2 * copies_.ticket() + 1;
}

/// Synchronizes the ranks on a stream, because the sum on one rank needs the data of all others, which they produce in
/// work queued before.
cudaStream_t CudaOps::met_behind(cudaStream_t before) {
  auto* const stream = reductions_.behind(before);
  auto* const met = met_.data<int>();
  check(ncclAllReduce(met, met, 1, ncclInt32, ncclSum, communicator_->get(), stream));
  return stream;
}

/// Synchronizes the ranks before copy engines fetch weights; NCCL's gathers synchronize implicitly.
void CudaOps::meet() {
  if (fetches()) copies_.behind(met_behind(gpu_.stream()));
}

void CudaOps::join_reductions() {
  queue_wait([this] {
    reductions_.join(gpu_.stream());
    copies_.join(gpu_.stream());
  });
}

void CudaOps::queue_wait(const std::function<void()>& wait) {
  if (!in_step_ || ranks_ == 1) return wait();
  if (waited_ == waits_.size()) waits_.push_back(make_events<2>());
  const auto& [before, after] = waits_[waited_++];
  check(cudaEventRecord(before.get(), gpu_.stream()));
  wait();
  check(cudaEventRecord(after.get(), gpu_.stream()));
}

double CudaOps::exchange_wait() {
  double sum = 0;
  for (std::size_t i = 0; i < waited_; ++i) sum += elapsed(waits_[i][0], waits_[i][1]);
  return sum;
}

void CudaOps::mark(Mark mark) {
  check(cudaEventRecord(marks_[static_cast<std::size_t>(mark)].get(), gpu_.stream()));
  if (mark == Mark::begin) waited_ = 0;
  if (mark == Mark::begin || mark == Mark::end) in_step_ = mark == Mark::begin;
}

double CudaOps::milliseconds(Mark from, Mark to) {
  return elapsed(marks_[static_cast<std::size_t>(from)], marks_[static_cast<std::size_t>(to)]);
}

void CudaOps::record_point(std::size_t number) {
  while (points_.size() <= number) points_.push_back(make_event());
  check(cudaEventRecord(points_[number].get(), gpu_.stream()));
}

double CudaOps::milliseconds_between(std::size_t from, std::size_t to) {
  return from == to ? 0 : elapsed(points_.at(from), points_.at(to));
}

void CudaOps::begin_part(const std::string& name, PartClass part_class, std::size_t number) {
  begin_range(name, part_class);
  if (kernel_times_) kernel_times_->begin_part(number);
}

void CudaOps::end_part() {
  if (kernel_times_) kernel_times_->end_part();
  end_range();
}

std::optional<std::vector<double>> CudaOps::kernel_times(std::size_t parts) {
  const auto recording = std::move(kernel_times_);
  return recording ? recording->milliseconds(parts) : std::nullopt;
}

std::optional<double> CudaOps::cycles(const std::function<void()>& queue) {
  counter_.begin();
  queue();
  counter_.end(1);
  const auto counted = counter_.take();
  return counted ? std::optional(counted->cycles) : std::nullopt;
}

static_assert(training::TrainingOps<CudaOps>);

}  // namespace shakedown::cuda
