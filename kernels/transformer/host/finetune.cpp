// Fine-tuning on the host, in f32 or f64 with plain loops.
#include "kernels/host/host_device.hpp"
#include "kernels/transformer/host/training_ops.hpp"
#include "kernels/transformer/measured_finetune.hpp"

namespace shakedown::host {

std::unique_ptr<Work> make(const FinetuneSpec& spec, HostDevice& device) {
  const auto make_of = [&]<class T>(T) -> std::unique_ptr<Work> {
    return std::make_unique<training::MeasuredFinetune<HostOps<T>>>(spec, std::make_unique<HostOps<T>>(device.team()),
                                                                    device);
  };
  if (spec.dtype == DType::f32) return make_of(float());
  if (spec.dtype == DType::f64) return make_of(double());
  throw Unsupported("the host backend trains in f32 and f64 only, not " + std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
