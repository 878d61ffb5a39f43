// A LoRA training step on this GPU: bf16 weights and activations, f32 gradients and trainable parameters.
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/training/cuda_ops.hpp"
#include "kernels/training/measured_step.hpp"

namespace shakedown::cuda {

std::unique_ptr<Work> make(const LoraStepSpec& spec, CudaDevice& device) {
  if (spec.dtype != DType::bf16) throw Unsupported("CUDA trains in bf16 only, not " + std::string(name(spec.dtype)));
  const auto shape = training::step_shape(spec);
  auto ops = std::make_unique<CudaOps>(device.gpu(), &device.communicators(), shape);
  return std::make_unique<training::MeasuredStep<CudaOps>>(spec, std::move(ops), device);
}

}  // namespace shakedown::cuda
