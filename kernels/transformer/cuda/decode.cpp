// The operations of decode on this GPU, and the Work of decode.
#include <algorithm>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/stream.hpp"
#include "kernels/cuda/tuner.hpp"
#include "kernels/transformer/cuda/cuda_ops.hpp"
#include "kernels/transformer/cuda/decode_ops.hpp"
#include "kernels/transformer/cuda/quantize.hpp"
#include "kernels/transformer/measured_decode.hpp"

namespace shakedown::cuda {

namespace {

constexpr std::size_t workspace_alignment = 256;
constexpr double read_tuning_seconds = 0.1;

std::size_t shared_bytes_of(int ordinal) {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
  return static_cast<std::size_t>(bytes);
}

}  // namespace

DecodeOps::DecodeOps(const Gpu& gpu, const DecodeSpec& spec)
    : gpu_(gpu),
      properties_{gpu.multiprocessors(), shared_bytes_of(gpu.ordinal()), gpu.major() >= 9},
      batch_(static_cast<std::size_t>(spec.batch)),
      products_(gpu) {}

void DecodeOps::connect(Group& group, CudaDevice& device) {
  communicator_ = &device.communicators().of(group).communicator;
  if (batch_ > 1 || group.size() > Mailboxes::most_ranks) return;
  if (!group.all(group.on_host().size() == group.size())) return;
  try {
    share_memory(group, device.gpu());
  } catch (const Unsupported&) {  // thrown on all ranks together
    mailboxes_.reset();
  }
}

void DecodeOps::share_memory(Group& group, Gpu& gpu) {
  const auto bytes = mailbox_bytes(hidden_), numbers = mailbox_numbers(hidden_) * sizeof(unsigned);
  Mailboxes boxes{.ranks = group.size(), .rank = group.rank()};
  sum_numbers_ = Buffer(numbers);
  set_bytes(sum_numbers_.data(), 0, numbers);
  boxes.numbers = sum_numbers_.data<unsigned>();
  for (int distance = 1; distance < boxes.ranks; ++distance) {
    auto& memory = *memory_.emplace_back(std::make_unique<PeerMemory>(gpu, bytes));
    set_bytes(memory.shared().data(), 0, bytes);
    synchronize();
    memory.exchange(group.on_host(), (boxes.rank + distance) % boxes.ranks);
    boxes.from[distance - 1] = memory.shared().data<uint4>();
    boxes.to[distance - 1] = static_cast<uint4*>(memory.mapped());
  }
  mailboxes_ = boxes;
}

std::size_t DecodeOps::workspace_bytes(const training::TransformerShape& m, const DecodeSpec& spec) {
  hidden_ = m.hidden;
  widest_ = std::max({m.hidden, m.q_width(), 2 * m.intermediate});
  partials_ = attention_partials(batch_, m.heads, m.head_dim, static_cast<std::size_t>(spec.context));
  return Products::workspace_bytes + 2 * batch_ * (widest_ * sizeof(Bf16) + workspace_alignment) +
         partials_ * sizeof(float);
}

void DecodeOps::use_workspace(std::byte* at) {
  workspace_ = at;
  products_.use_workspace(at);
}

DecodeOps::Memory DecodeOps::allocate(std::size_t bytes) {
  require_memory(bytes);
  return {Buffer(bytes)};
}

void DecodeOps::set_bytes(void* device, int value, std::size_t bytes) const {
  check(cudaMemsetAsync(device, value, bytes, gpu_.stream()));
}
void DecodeOps::fill_normal(Matrix<Element> to, double stddev, std::uint64_t tensor,
                            const training::Numbers& numbers) const {
  cuda::fill_normal(gpu_.stream(), to, stddev, tensor, numbers);
}
void DecodeOps::quantize(Matrix<const Element> x, const training::QuantizedRows& to) const {
  cuda::quantize(gpu_.stream(), x, {to.values, to.scales, nullptr, to.type});
}

void DecodeOps::embed(Matrix<const Element> table, const int* tokens, Matrix<Element> x) const {
  cuda::embed(gpu_.stream(), table, tokens, {}, 1, x);
}

void DecodeOps::project(const DecodeProduct& p) {
  if (p.d.rows == 1) return multiply_row(gpu_.stream(), p, properties_);
  auto* const rows = reinterpret_cast<Element*>(workspace_ + Products::workspace_bytes);
  auto* const rstd = reinterpret_cast<float*>(rows + 2 * batch_ * widest_);
  const Matrix<Element> n{rows, p.x.rows, p.x.cols, p.x.cols};
  const Matrix<Element> gates{rows + batch_ * widest_, p.d.rows, p.w.rows(), p.w.rows()};
  const NormWeights gain{const_cast<Element*>(p.gain), nullptr};
  if (p.quantized.values) {
    const auto to = quantized(p.quantized);
    if (p.gain == nullptr)
      cuda::quantize(gpu_.stream(), p.x, to);
    else
      quantize_norm(gpu_.stream(), p.x, gain, static_cast<float>(p.norm_eps), {nullptr, rstd}, to);
    products_.multiply(training::QuantizedGemm<Bf16>{
        .d = p.is_gated ? gates : p.d, .a = p.quantized, .b = p.w.quantized, .c = p.residual, .bias = p.bias});
    if (p.is_gated) swiglu(gpu_.stream(), gates, p.d);
    return;
  }
  if (p.gain != nullptr) {
    norm(gpu_.stream(), p.x, gain, static_cast<float>(p.norm_eps), n, {nullptr, rstd});
  }
  products_.multiply(training::Gemm<Bf16, Bf16>{.d = p.is_gated ? gates : p.d,
                                                .a = p.gain != nullptr ? n : p.x,
                                                .b = p.w.plain,
                                                .b_transposed = true,
                                                .beta = p.residual != nullptr ? 1.0 : 0.0,
                                                .c = p.residual,
                                                .bias = p.bias});
  if (p.is_gated) swiglu(gpu_.stream(), gates, p.d);
}

void DecodeOps::attend(const DecodeAttention& a) const {
  auto* const partials = reinterpret_cast<float*>(workspace_ + Products::workspace_bytes +
                                                  2 * batch_ * (widest_ * sizeof(Bf16) + workspace_alignment));
  cuda::attend(gpu_.stream(), a, partials, properties_);
}

void DecodeOps::add_up(Matrix<const Element> own, Matrix<Element> all) const {
  if (mailboxes_) return cuda::add_up(gpu_.stream(), own.data, all.data, hidden_, *mailboxes_, properties_);
  communicator_->call([&](ncclComm_t comm) {
    return ncclAllReduce(own.data, all.data, all.rows * all.cols, ncclBfloat16, ncclSum, comm, gpu_.stream());
  });
}
void DecodeOps::gather(Matrix<const Element> own, Matrix<Element> all) const {
  communicator_->call([&](ncclComm_t comm) {
    return ncclAllGather(own.data, all.data, own.rows * own.cols, ncclBfloat16, comm, gpu_.stream());
  });
}

training::DecodeErrors DecodeOps::errors() {
  // A norm in f32, and an f32 sum of products of bf16. The check of a product adds two more u_out of the result.
  constexpr double u_bf16 = 0x1p-8, u_sum = 0x1p-18;
  return {u_bf16 / 2, u_sum, 1e-2, u_bf16};
}

training::ProductErrors DecodeOps::quantized_errors(std::size_t inner, training::Accumulation accumulation) {
  return CudaOps::quantized_errors(inner, accumulation);
}

std::uint64_t DecodeOps::digest(const void* from, std::size_t bytes) const {
  return *digest_of(gpu_, View(const_cast<void*>(from), bytes));
}

double DecodeOps::seconds(const std::function<void()>& queue) const {
  queue();
  check(cudaEventRecord(begin_.get(), gpu_.stream()));
  queue();
  check(cudaEventRecord(end_.get(), gpu_.stream()));
  check(cudaEventSynchronize(end_.get()));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
  return static_cast<double>(milliseconds) * 1e-3;
}

void DecodeOps::read(const std::byte* from, std::size_t bytes) {
  const auto multiprocessors = gpu_.multiprocessors();
  if (!sums_) sums_ = Buffer(sizeof(std::uint64_t) * most_stream_blocks(HbmOp::read, bytes, multiprocessors));
  Operands operands;
  operands.a = from;
  operands.sums = sums_.data<std::uint64_t>();
  operands.bytes = bytes;
  const auto run = [&](const StreamShape& shape) {
    stream_over(gpu_.stream(), HbmOp::read, operands, shape, multiprocessors);
  };
  if (!read_shape_) {
    const auto shapes = stream_shapes(HbmOp::read);
    const auto try_shape = [&](std::size_t i) {
      if (!runs_on(shapes[i], gpu_.major())) return false;
      run(shapes[i]);
      return true;
    };
    read_shape_ = shapes[pick_fastest(gpu_, shapes.size(), try_shape, {read_tuning_seconds}).value_or(0)];
  }
  run(*read_shape_);
}

std::unique_ptr<Work> make(const DecodeSpec& spec, CudaDevice& device) {
  if (spec.dtype != DType::bf16 && spec.dtype != DType::fp8_e4m3) {
    throw Unsupported("CUDA decodes in bf16 and fp8 only, not in " + std::string(name(spec.dtype)));
  }
  if (spec.dtype == DType::fp8_e4m3 && spec.batch > 1) {
    require_quantized_products(device.gpu());
    if (spec.batch % 16 != 0) throw Unsupported("decode in fp8 supports one sequence, or a multiple of 16");
  }
  require_memory(footprint(spec));
  return std::make_unique<training::MeasuredDecode<DecodeOps>>(
      spec, std::make_unique<DecodeOps>(device.gpu(), spec), device,
      [&device](DecodeOps& ops, Group& group) { ops.connect(group, device); });
}

}  // namespace shakedown::cuda
