// The operations of a training step on an NVIDIA GPU: bf16 with f32 gradients and parameters (the concept TrainingOps).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/communicator.hpp"
#include "kernels/cuda/cycles.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/kernel_times.hpp"
#include "kernels/cuda/pinned.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/transformer/buffers.hpp"
#include "kernels/transformer/cuda/attention.hpp"
#include "kernels/transformer/cuda/peer_arenas.hpp"
#include "kernels/transformer/cuda/products.hpp"

namespace shakedown::cuda {

/// Selects the kernels of attention: cuDNN's, deterministic if it supports that, or for comparison only one kind.
enum class AttentionKind { best, plain, cudnn };

struct CudaOpsSettings {
  AttentionKind attention = AttentionKind::best;
  bool deterministic = true;  // for the attention gradient of `cudnn`; everything else is always deterministic
};

/// An additional stream, with functions to order its work relative to other streams.
class SideStream {
 public:
  explicit SideStream(Stream);

  /// Work queued here from now on starts after the work queued on that stream so far. Returns this stream.
  cudaStream_t behind(cudaStream_t);
  /// Returns a ticket for the work queued last, for `wait`.
  std::size_t ticket();
  /// Work queued on that stream from now on starts after the operation of the ticket, or after all of them.
  void wait(cudaStream_t, std::size_t ticket);
  void join(cudaStream_t);

 private:
  Stream stream_;
  Event before_ = make_event(), last_ = make_event();
  bool busy_ = false;
  /// A wait for an event that has been reused waits for a later operation, which is safe.
  std::array<Event, 64> done_;
  std::size_t tickets_ = 0;
};

class CudaOps {
 public:
  using Element = Bf16;
  using Master = float;

  /// `communicators` may be null for one rank. Errors: Unsupported if the shape does not suit the kernels,
  /// MissingSoftware if cuDNN has no kernel for its attention.
  CudaOps(const Gpu&, Communicators* communicators, const training::StepShape&, const CudaOpsSettings& = {});

  // Set-up
  std::size_t workspace_bytes() const;
  void use_workspace(std::byte*);
  struct Memory {
    Buffer buffer;
    std::unique_ptr<PeerArenas> peers;  // destroyed before the buffer
    std::byte* data() const { return buffer.data<std::byte>(); }
  };
  /// Errors: Unsupported if there is not enough memory. The text names the bytes needed and free.
  Memory allocate(std::size_t bytes);
  void copy_in(void* device, const void* host, std::size_t bytes) const { gpu_.write(device, host, bytes); }
  void copy_out(void* host, const void* device, std::size_t bytes) const { gpu_.read(host, device, bytes); }
  /// Page-locked memory. Waits for its copies before it is freed.
  class HostMemory {
   public:
    HostMemory(const Gpu& gpu, std::size_t bytes) : gpu_(gpu), memory_(bytes, std::nullopt) {}
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;
    ~HostMemory() { static_cast<void>(cudaStreamSynchronize(gpu_.stream())); }
    std::byte* data() const { return memory_.data(); }

   private:
    const Gpu& gpu_;
    Pinned memory_;
  };
  HostMemory host_memory(std::size_t bytes) const {
    require_host_memory(bytes, gpu_.local_size());
    return {gpu_, bytes};
  }
  void begin_copy(void* to, const void* from, std::size_t bytes, std::size_t turn) const;
  void finish_copy(std::size_t turn) const;
  static Element to_element(double value) { return __double2bfloat16(value); }
  static double to_double(Element value) { return __bfloat162float(value); }
  void set_bytes(void* device, int value, std::size_t bytes) const;
  void copy_bytes(void* to, const void* from, std::size_t bytes) const;
  void fill_normal(Matrix<Element>, double stddev, std::uint64_t tensor) const;
  void fill_normal(Master* values, std::size_t count, double stddev, std::uint64_t tensor, std::size_t first = 0,
                   const training::Numbers& = {}) const;
  void place_copies(std::span<const training::ParameterSlot<Element>>);
  void repeat(std::size_t which, const std::function<void()>& queue);
  void synchronize() const { gpu_.synchronize(); }

  void connect(Group&, Group* together = nullptr);
  void start_tuning(const Choices& remembered = {}, const TuningShare& share = {}) {
    products_.start_tuning(remembered, share);
  }
  bool finish_tuning(Group& group, Choices* chosen = nullptr, Tilings* tilings = nullptr) {
    return products_.finish_tuning(group, chosen, tilings);
  }
  std::size_t used_bytes() const;  // memory of the GPU in use by all processes
  Metrics metrics() const;

  // Products
  void gemm(const training::Gemm<Element, Element>&);
  void gemm(const training::Gemm<Element, Master>&);
  void gemm(const training::QuantizedGemm<Element>&);
  void gemm(const training::QuantizedGemm<Element, Master>&);
  static training::ProductErrors quantized_errors(std::size_t inner, training::Accumulation);
  void quantize(Matrix<const Element> x, const training::QuantizedRows& to);
  void quantize_transposed(Matrix<const Element> x, const training::QuantizedRows& to);
  void requantize(Matrix<const Element> x, std::size_t first, const training::QuantizedRows& to);
  void requantize_transposed(Matrix<const Element> x, std::size_t first, const training::QuantizedRows& to);
  void copy(Matrix<const Element> from, Matrix<Element> to);

  // Layers
  void embedding(Matrix<const Element> table, const int* tokens, Matrix<const Element> positions, std::size_t seq,
                 Matrix<Element> x);
  void embedding_backward(Matrix<const Element> dx, const int* tokens, const int* order, Matrix<Master> d_table);
  void norm(Matrix<const Element> x, const NormWeights&, double eps, Matrix<Element> n, const NormStatistics&);
  void norm_backward(Matrix<const Element> dn, Matrix<const Element> x, const NormWeights&, const NormStatistics&,
                     bool accumulate, Matrix<Element> dx, Matrix<Element> n, const NormGradient& = {});
  void sum_rows(Matrix<const Element> dy, bool accumulate, Master* sums);
  void rope(Matrix<Element> qkv, const Master* table, training::AttentionShape, training::Rotation);
  void attention(Matrix<const Element> qkv, Matrix<Element> o, Master* lse, training::AttentionShape);
  void attention_backward(Matrix<const Element> qkv, Matrix<const Element> o, const Master* lse,
                          Matrix<const Element> d_o, Matrix<Element> d_qkv, training::AttentionShape);
  void swiglu(Matrix<const Element> gate_up, Matrix<Element> h);
  void swiglu_backward(Matrix<Element> gate_up, Matrix<Element> dh, bool emit_h);
  void gelu(Matrix<const Element> u, Matrix<Element> h);
  void gelu_backward(Matrix<Element> u, Matrix<Element> dh, bool emit_h);
  void cross_entropy(Matrix<Element> logits, const int* targets, double scale, Master* losses);
  void add_sum(const Master* values, std::size_t count, double scale, double* to);

  // Between the ranks of a tensor parallel group
  void gather_tokens(Matrix<Element> all);
  void scatter_tokens(Matrix<Element> all, Matrix<Element> own);
  void sum_together(Master* values, std::size_t count);
  void sum_together(training::Summary*);

  // Gradients and parameters
  void summarize(const Master* values, std::size_t first, std::size_t count, training::Summary*);
  void summarize(const Element* values, std::size_t first, std::size_t count, training::Summary*);
  void adamw(const training::FlatState<Master>&, const training::AdamW&, const training::Summary* gradient,
             training::Summary* updated, std::size_t first, std::size_t slots);
  void adamw(const training::Bf16State<Element, Master>&, const training::AdamW&, const training::Summary* gradient,
             training::Summary* updated, std::size_t first, std::size_t slots);
  void round_to_bf16(const Master* from, Element* to, std::size_t count);
  void write_copies(const Master* parameters);
  void all_reduce(Master* values, std::size_t count);
  void all_reduce(training::Summary*);
  std::size_t reduce_scatter(Master* all, Master* own, std::size_t count, bool add, const training::ShareSummaries&);
  bool fetches_sums() const { return fetches() && most_fetched_ > 0; }
  std::size_t all_gather(const Element* own, Element* all, std::size_t count);
  void meet();
  void wait(std::size_t ticket);
  void join_reductions();
  void mark(training::Mark);
  double milliseconds(training::Mark from, training::Mark to);
  double exchange_wait();
  void record_point(std::size_t number);
  double milliseconds_between(std::size_t from, std::size_t to);
  void start_kernel_times() { kernel_times_ = KernelTimes::start(); }
  void begin_part(const std::string& name, PartClass, std::size_t number);
  void end_part();
  std::optional<std::vector<double>> kernel_times(std::size_t parts);
  std::optional<double> cycles(const std::function<void()>& queue);

  // Properties of the implementation
  std::string attention_name() const { return attention_->name(); }
  std::string fallback() const;
  bool is_deterministic() const { return attention_->is_deterministic(); }
  const Products& products() const { return products_; }

 private:
  /// True if copy engines fetch the data of other ranks; otherwise NCCL transfers it.
  bool fetches() const { return peers_ != nullptr && peers_->mapped(); }
  /// Returns a stream on which further work starts after all ranks have arrived at this point, each after its work
  /// queued on the given stream.
  cudaStream_t met_behind(cudaStream_t);
  /// Queues a wait of the compute stream for other streams, between two events if it belongs to a step of several
  /// ranks.
  void queue_wait(const std::function<void()>& wait);
  std::size_t fetch_sums(const Master* all, Master* own, std::size_t count, bool add, const training::ShareSummaries&);

  const Gpu& gpu_;
  Communicators* communicators_;
  Communicator *communicator_ = nullptr, *together_ = nullptr;
  int ranks_, rank_, tensor_, tensor_rank_;
  bool shares_state_;
  PeerArenas* peers_ = nullptr;  // for the allocated memory, if ranks share the state
  Products products_;
  std::unique_ptr<Attention> attention_;

  std::vector<std::size_t> first_segment_;  // of each slot, and the end of the last
  std::size_t most_slots_, most_partials_;
  std::byte* attention_workspace_ = nullptr;
  training::Summary* partials_ = nullptr;
  Segment* segments_ = nullptr;
  ColumnPartials columns_;
  std::size_t most_logit_parts_;  // for all ranks that share a vocabulary, and for this one
  LogitPart* logit_parts_ = nullptr;
  std::size_t most_summed_ = 0;  // values of one all_reduce that are transferred in bf16; 0: not rounded
  Bf16* rounded_ = nullptr;
  std::size_t most_fetched_ = 0;  // values of a rank's gradients that are fetched from another rank at a time
  Master* fetched_ = nullptr;     // most_fetched_ values per other rank
  std::size_t most_told_ = 0;     // partial sums of a rank's own share, of the sum, and of the fetched values
  training::Summary* told_ = nullptr;

  SideStream reductions_, copies_;
  Buffer met_;                   // ranks sum it to synchronize
  std::array<Event, 2> copied_;  // one per turn
  std::array<Event, training::marks> marks_;
  bool in_step_ = false;
  std::vector<std::array<Event, 2>> waits_;  // before and after each wait of a step
  std::size_t waited_ = 0;                   // number of waits of the last step
  std::vector<Event> points_;
  std::unique_ptr<KernelTimes> kernel_times_;  // only while steps are profiled
  CycleCounter counter_;
  std::array<Recording, 2> recordings_;  // of the repeated parts
};

}  // namespace shakedown::cuda
