// A training step on this GPU: bf16 weights and activations, f32 gradients and trainable parameters.
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/gpu_sizes.hpp"
#include "kernels/transformer/cuda/cuda_ops.hpp"
#include "kernels/transformer/measured_checkpoint.hpp"

namespace shakedown::cuda {

namespace {

template <training::Trains trains>
StepSpec<trains> sized(StepSpec<trains> spec, CudaDevice& device) {
  spec.logit_rows = logit_rows(training::preset(spec.model).model.hidden, device.gpu().multiprocessors());
  return spec;
}

template <class Ops, training::Trains trains>
std::unique_ptr<Ops> make_ops(const StepSpec<trains>& spec, CudaDevice& device) {
  if (spec.dtype == DType::fp8_e4m3) {
    require_quantized_products(device.gpu());
  } else if (spec.dtype != DType::bf16) {
    throw Unsupported("CUDA trains in bf16 and fp8 only, not " + std::string(name(spec.dtype)));
  }
  return std::make_unique<Ops>(device.gpu(), &device.communicators(), training::step_shape(spec));
}

template <training::Trains trains>
std::unique_ptr<Work> make_step(const StepSpec<trains>& wanted, CudaDevice& device) {
  const auto spec = sized(wanted, device);
  using Step = training::MeasuredStep<CudaOps, trains>;
  return std::make_unique<Step>(spec, make_ops<typename Step::Ops>(spec, device), device);
}

}  // namespace

std::unique_ptr<Work> make(const LoraStepSpec& spec, CudaDevice& device) { return make_step(spec, device); }
std::unique_ptr<Work> make(const TrainStepSpec& spec, CudaDevice& device) { return make_step(spec, device); }
std::unique_ptr<Work> make(const CheckpointSpec& spec, CudaDevice& device) {
  return std::make_unique<training::MeasuredCheckpoint<CudaOps>>(spec, make_ops<CudaOps>(spec.step, device));
}

}  // namespace shakedown::cuda
