// The operations of decode on an NVIDIA GPU, in bf16 or with weights of fp8. One sequence uses our own kernels, which
// are limited by HBM; more sequences use cuBLASLt.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/cuda/stream_shape.hpp"
#include "kernels/transformer/cuda/decode.hpp"
#include "kernels/transformer/cuda/products.hpp"
#include "kernels/transformer/decode_spec.hpp"

namespace shakedown::cuda {

class DecodeOps {
 public:
  using Element = Bf16;
  using Master = float;

  DecodeOps(const Gpu&, const DecodeSpec&);

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
  void fill_normal(Matrix<Element>, double stddev, std::uint64_t tensor) const;
  void quantize(Matrix<const Element>, const training::QuantizedRows&) const;
  void synchronize() const { gpu_.synchronize(); }

  void embed(Matrix<const Element> table, const int* tokens, Matrix<Element> x) const;
  void project(const DecodeProduct&);
  void attend(const DecodeAttention&) const;

  void start_tuning(const Choices& remembered) { products_.start_tuning(remembered); }
  bool finish_tuning(Group& group, Choices* chosen) { return products_.finish_tuning(group, chosen); }
  /// Records what `queue` queues as one CUDA graph, and queues the graph.
  void record(const std::function<void()>& queue) { recording_.record(gpu_.stream(), 1, queue); }
  void replay() const { recording_.replay(gpu_.stream(), 1); }

  static training::DecodeErrors errors();
  std::uint64_t digest(const void* from, std::size_t bytes) const;
  /// Returns the seconds of what `queue` queues, after it has run once.
  double seconds(const std::function<void()>& queue) const;
  /// Queues a read of this memory, in the fastest way for its size.
  void read(const std::byte* from, std::size_t bytes);

 private:
  const Gpu& gpu_;
  DecodeGpu properties_;
  std::size_t batch_;
  Products products_;
  std::size_t widest_ = 0, partials_ = 0;  // columns of an input or of gates and values; floats of attention
  std::byte* workspace_ = nullptr;         // of cuBLASLt; then rows, then factors, then partial results
  Recording recording_;
  Event begin_ = make_event(), end_ = make_event();
  Buffer sums_;  // of `read`
  std::optional<StreamShape> read_shape_;
};

}  // namespace shakedown::cuda
