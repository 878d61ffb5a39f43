// Fine-tuning on this GPU: bf16 weights and activations, f32 gradients and trainable parameters.
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/gpu_sizes.hpp"
#include "kernels/transformer/cuda/cuda_ops.hpp"
#include "kernels/transformer/measured_finetune.hpp"

namespace shakedown::cuda {

std::unique_ptr<Work> make(const FinetuneSpec& wanted, CudaDevice& device) {
  if (wanted.dtype != DType::bf16) {
    throw Unsupported("CUDA trains in bf16 only, not " + std::string(name(wanted.dtype)));
  }
  auto spec = wanted;
  spec.logit_rows = logit_rows(spec.shape.hidden, device.gpu().multiprocessors());
  auto ops = std::make_unique<CudaOps>(device.gpu(), &device.communicators(), training::step_shape(spec));
  return std::make_unique<training::MeasuredFinetune<CudaOps>>(spec, std::move(ops), device);
}

}  // namespace shakedown::cuda
