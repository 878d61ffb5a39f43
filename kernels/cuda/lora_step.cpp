// A LoRA training step on this GPU: bf16 weights and activations, f32 gradients and trainable parameters.
#include <string>

#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/training/lora_ops.hpp"
#include "kernels/training/measured_step.hpp"

namespace shakedown::cuda {

std::unique_ptr<Work> make_lora_step(const LoraStepSpec& spec, const Gpu& gpu, Communicator& communicator,
                                     const std::string& device) {
  if (spec.dtype != DType::bf16) throw Unsupported("CUDA trains in bf16 only, not " + std::string(name(spec.dtype)));
  const auto shape = training::step_shape(spec);
  return std::make_unique<training::MeasuredStep<CudaOps>>(spec, std::make_unique<CudaOps>(gpu, &communicator, shape),
                                                           device);
}

}  // namespace shakedown::cuda
