// The training step on the host, in f32 or f64 with plain loops.
#include "kernels/host/host_device.hpp"
#include "kernels/transformer/host/training_ops.hpp"
#include "kernels/transformer/measured_checkpoint.hpp"

namespace shakedown::host {

namespace {

template <class T, training::Trains trains>
std::unique_ptr<Work> make_step(const StepSpec<trains>& spec, HostDevice& device) {
  using Step = training::MeasuredStep<HostOps<T>, trains>;
  return std::make_unique<Step>(spec, std::make_unique<typename Step::Ops>(device.team()), device);
}

template <training::Trains trains>
std::unique_ptr<Work> make_any(const StepSpec<trains>& spec, HostDevice& device) {
  if (spec.sums != DType::f32) throw Unsupported("the host backend sums gradients only in the data type of the step");
  if (spec.dtype == DType::f32 || spec.dtype == DType::fp8_e4m3) return make_step<float>(spec, device);
  if (spec.dtype == DType::f64) return make_step<double>(spec, device);
  throw Unsupported("the host backend trains in f32, f64 and fp8 only, not " + std::string(name(spec.dtype)));
}

}  // namespace

std::unique_ptr<Work> make(const LoraStepSpec& spec, HostDevice& device) { return make_any(spec, device); }
std::unique_ptr<Work> make(const TrainStepSpec& spec, HostDevice& device) { return make_any(spec, device); }
std::unique_ptr<Work> make(const CheckpointSpec& spec, HostDevice& device) {
  const auto make_of = [&]<class T>(T) -> std::unique_ptr<Work> {
    return std::make_unique<training::MeasuredCheckpoint<HostOps<T>>>(spec,
                                                                      std::make_unique<HostOps<T>>(device.team()));
  };
  if (spec.step.dtype == DType::f32) return make_of(float());
  if (spec.step.dtype == DType::f64) return make_of(double());
  throw Unsupported("the host backend trains in f32 and f64 only, not " + std::string(name(spec.step.dtype)));
}

}  // namespace shakedown::host
