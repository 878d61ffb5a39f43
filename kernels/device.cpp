// The only place that names backends.
#include "kernels/device.hpp"

#include "kernels/backends.hpp"

namespace shakedown {

std::unique_ptr<Work> Device::prepare(const Spec& spec) {
  const auto description = std::visit([](const auto& s) { return s.description; }, spec);
  throw Unsupported(std::string(description) + " is not implemented for " + info().name);
}

Availability probe(Backend backend) { return backend == Backend::host ? host::probe() : cuda::probe(); }

std::unique_ptr<Device> open_device(Backend backend, const Placement& placement) {
  return backend == Backend::host ? host::open_device(placement) : cuda::open_device(placement);
}

}  // namespace shakedown
