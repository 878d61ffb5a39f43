// The forward pass of a layer on this GPU: products by cuBLASLt, attention by cuDNN, the rest by our own kernels.
#include <memory>
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/gemm_type.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/transformer/cuda/attention.hpp"
#include "kernels/transformer/cuda/products.hpp"
#include "kernels/transformer/cuda/quantize.hpp"
#include "kernels/transformer/measured_layer.hpp"

namespace shakedown::cuda {

namespace {

class LayerOps {
 public:
  using Element = Bf16;
  using Master = float;

  LayerOps(const Gpu& gpu, const LayerSpec& spec)
      : gpu_(gpu),
        products_(gpu),
        attention_(make_cudnn_attention(attention_shape(spec), false)),
        errors_(errors(spec)) {}

  std::size_t workspace_bytes() const {
    return Products::workspace_bytes + summary_bytes() + attention_->workspace_bytes();
  }
  void use_workspace(std::byte* at) {
    products_.use_workspace(at);
    partials_ = reinterpret_cast<training::Summary*>(at + Products::workspace_bytes);
    attention_workspace_ = at + Products::workspace_bytes + summary_bytes();
  }
  struct Memory {
    Buffer buffer;
    std::byte* data() const { return buffer.data<std::byte>(); }
  };
  static Memory allocate(std::size_t bytes) {
    require_memory(bytes);
    return {Buffer(bytes)};
  }
  void copy_in(void* device, const void* host, std::size_t bytes) const { gpu_.write(device, host, bytes); }
  void copy_out(void* host, const void* device, std::size_t bytes) const { gpu_.read(host, device, bytes); }
  static Element to_element(double value) { return __double2bfloat16(value); }
  static double to_double(Element value) { return __bfloat162float(value); }
  void set_bytes(void* device, int value, std::size_t bytes) const {
    check(cudaMemsetAsync(device, value, bytes, gpu_.stream()));
  }
  void fill_normal(Matrix<Element> to, double stddev, std::uint64_t tensor) const {
    cuda::fill_normal(gpu_.stream(), to, stddev, tensor);
  }
  void synchronize() const { gpu_.synchronize(); }
  void start_tuning(const Choices& remembered, const TuningShare& share) { products_.start_tuning(remembered, share); }
  bool finish_tuning(Group& group, Choices* chosen, Tilings* tilings) {
    return products_.finish_tuning(group, chosen, tilings);
  }
  std::uint64_t digest(const void* from, std::size_t bytes) const {
    return *digest_of(gpu_, View(const_cast<void*>(from), bytes));
  }
  void summarize(const Element* values, std::size_t first, std::size_t count, training::Summary* to) const {
    cuda::summarize(gpu_.stream(), values, first, count, partials_, to, gpu_.properties().f64);
  }
  training::LayerErrors errors() const { return errors_; }
  std::string attention_name() const { return attention_->name(); }

  void norm(Matrix<const Element> x, const NormWeights& weights, double eps, Matrix<Element> n,
            const NormStatistics& statistics) const {
    cuda::norm(gpu_.stream(), x, weights, static_cast<float>(eps), n, statistics);
  }
  void attention(const Matrix<Element>& qkv, const Matrix<Element>& out, Master* lse,
                 const training::AttentionShape&) const {
    attention_->forward(gpu_.stream(), qkv.data, out.data, lse, attention_workspace_);
  }
  void gemm(const training::Gemm<Element, Element>& product) { products_.multiply(product); }
  void gemm(const training::QuantizedGemm<Element>& product) { products_.multiply(product); }
  void quantize(Matrix<const Element> x, const training::QuantizedRows& to) const {
    cuda::quantize(gpu_.stream(), x, quantized(to));
  }
  void quantize_gelu(Matrix<const Element> u, const training::QuantizedRows& to) const {
    cuda::quantize_gelu(gpu_.stream(), u, quantized(to));
  }
  void quantize_norm(Matrix<const Element> x, const NormWeights& weights, double eps, const NormStatistics& statistics,
                     const training::QuantizedRows& to) const {
    cuda::quantize_norm(gpu_.stream(), x, weights, static_cast<float>(eps), statistics, quantized(to));
  }

 private:
  static AttentionShape attention_shape(const LayerSpec& spec) {
    const auto model = layer_shape(spec);
    const auto width = model.qkv_width(), out = model.q_width();
    return {.batch = spec.batch,
            .sequence = spec.seq,
            .query_heads = static_cast<int>(model.heads),
            .kv_heads = static_cast<int>(model.kv_heads),
            .head_size = static_cast<int>(model.head_dim),
            .qkv_stride = width,
            .out_stride = out,
            .dout_stride = out,
            .dqkv_stride = width,
            .causal = model.causal,
            .forward_only = true};
  }

  /// The errors of products by cuBLASLt (gemm_type.cpp), and of attention in bf16.
  static training::LayerErrors errors(const LayerSpec& spec) {
    const auto longest = static_cast<int>(layer_shape(spec).intermediate);
    const auto type = gemm_type({spec.dtype, 16, 16, longest});
    return {u_out_of(type, longest), type.u_acc, 1e-2};
  }

  static std::size_t summary_bytes() {
    constexpr auto line = training::Arena::alignment;
    return (partials_needed(0) * sizeof(training::Summary) + line - 1) / line * line;
  }

  const Gpu& gpu_;
  Products products_;
  std::unique_ptr<Attention> attention_;
  training::Summary* partials_ = nullptr;
  std::byte* attention_workspace_ = nullptr;
  training::LayerErrors errors_;
};

}  // namespace

std::unique_ptr<Work> make(const LayerSpec& spec, CudaDevice& device) {
  if (spec.dtype != DType::bf16 && spec.dtype != DType::fp8_e4m3) {
    throw Unsupported("CUDA computes a layer in bf16 and fp8 only, not in " + std::string(name(spec.dtype)));
  }
  spec.dtype == DType::bf16 ? require_capability(spec.dtype, 80, device.gpu().ordinal())
                            : require_quantized_products(device.gpu());
  require_memory(footprint(spec));
  return std::make_unique<training::MeasuredLayer<LayerOps>>(spec, std::make_unique<LayerOps>(device.gpu(), spec),
                                                             device);
}

}  // namespace shakedown::cuda
