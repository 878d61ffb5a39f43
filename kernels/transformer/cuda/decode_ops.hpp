// The operations of decode on an NVIDIA GPU, in bf16 or with weights of fp8. One sequence uses our own kernels, which
// are limited by HBM; more sequences use cuBLASLt.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/peer_memory.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/cuda/stream_shape.hpp"
#include "kernels/transformer/cuda/decode_kernels.hpp"
#include "kernels/transformer/cuda/products.hpp"
#include "kernels/transformer/decode_spec.hpp"

namespace shakedown::cuda {

class DecodeOps {
 public:
  using Element = Bf16;
  using Master = float;

  DecodeOps(const Gpu&, const DecodeSpec&);
  /// Connects the ranks that share the model. Called once, collectively, if there are several. Sums of one token use
  /// memory that the ranks share if they are on one host and CUDA IPC supports it; all other sums use NCCL.
  void connect(Group&, CudaDevice&);

  std::size_t workspace_bytes(const training::TransformerShape&, const DecodeSpec&);
  void use_workspace(std::byte* at);
  struct Memory {
    Buffer buffer;
    std::byte* data() const { return buffer.data<std::byte>(); }
  };
  /// Errors: Unsupported if there is not enough memory.
  static Memory allocate(std::size_t bytes);
  void copy_in(void* device, const void* host, std::size_t bytes) const { gpu_.write(device, host, bytes); }
  void copy_out(void* host, const void* device, std::size_t bytes) const { gpu_.read(host, device, bytes); }
  static Element to_element(double value) { return __double2bfloat16(value); }
  static double to_double(Element value) { return static_cast<double>(__bfloat162float(value)); }
  void set_bytes(void* device, int value, std::size_t bytes) const;
  void fill_normal(Matrix<Element>, double stddev, std::uint64_t tensor, const training::Numbers&) const;
  void quantize(Matrix<const Element>, const training::QuantizedRows&) const;
  void synchronize() const { gpu_.synchronize(); }

  void embed(Matrix<const Element> table, const int* tokens, Matrix<Element> x) const;
  void project(const DecodeProduct&);
  void attend(const DecodeAttention&) const;
  /// Sets `all` to the sum of `own` over the ranks that share the model.
  void add_up(Matrix<const Element> own, Matrix<Element> all) const;
  /// True if a sum is rounded once. NCCL rounds after each addition.
  bool rounds_sums_once() const { return mailboxes_.has_value(); }
  /// Copies each rank's rows to all ranks. This rank's rows are a part of `all`.
  void gather(Matrix<const Element> own, Matrix<Element> all) const;

  void start_tuning(const Choices& remembered, const TuningShare& share) { products_.start_tuning(remembered, share); }
  bool finish_tuning(Group& group, Choices* chosen, Tilings* tilings) {
    return products_.finish_tuning(group, chosen, tilings);
  }
  /// Records what `queue` queues as one CUDA graph, and queues the graph.
  void record(const std::function<void()>& queue) { recording_.record(gpu_.stream(), 1, queue); }
  void replay() const { recording_.replay(gpu_.stream(), 1); }

  static training::DecodeErrors errors();
  static training::ProductErrors quantized_errors(std::size_t inner, training::Accumulation);
  std::uint64_t digest(const void* from, std::size_t bytes) const;
  /// Returns the seconds of what `queue` queues, after it has run once.
  double seconds(const std::function<void()>& queue) const;
  /// Queues a read of this memory, in the fastest way for its size.
  void read(const std::byte* from, std::size_t bytes);

 private:
  void share_memory(Group&, Gpu&);

  const Gpu& gpu_;
  DecodeGpu properties_;
  std::size_t batch_;
  Products products_;
  Communicator* communicator_ = nullptr;
  std::vector<std::unique_ptr<PeerMemory>> memory_;  // by distance of the rank, from 1 on
  Buffer sum_numbers_;
  std::optional<Mailboxes> mailboxes_;
  std::size_t hidden_ = 0, widest_ = 0, partials_ = 0;  // columns of a sum, and of the widest operand; floats of
                                                        // attention
  std::byte* workspace_ = nullptr;                      // of cuBLASLt; then rows, then factors, then partial results
  Recording recording_;
  Event begin_ = make_event(), end_ = make_event();
  Buffer sums_;  // of `read`
  std::optional<StreamShape> read_shape_;
};

}  // namespace shakedown::cuda
