// The only file that names the backends.
#include "kernels/backends.hpp"

#include <algorithm>

#include "base/archive.hpp"

namespace shakedown {

std::unique_ptr<Work> Device::prepare(const Spec& spec) {
  throw Unsupported(std::string(spec.description) + " is not implemented for " + info().name);
}

bool still_best(Group& group, double remembered, double likeliest) {
  constexpr double max_turn_ratio = 1.02;    // the allowed ratio of two timings of the same operation
  constexpr double infinite_seconds = 1e30;  // a finite stand-in for infinity, since it is sent between ranks
  const auto slowest = [&](double mine) {
    const auto all = gather(group, std::min(mine, infinite_seconds));
    return *std::max_element(all.begin(), all.end());
  };
  const double ours = slowest(remembered), theirs = slowest(likeliest);
  return ours < infinite_seconds && ours <= max_turn_ratio * theirs;
}

Availability probe(Backend backend) { return backend == Backend::host ? host::probe() : cuda::probe(); }

std::unique_ptr<Device> open_device(Backend backend, const Placement& placement) {
  return backend == Backend::host ? host::open_device(placement) : cuda::open_device(placement);
}

}  // namespace shakedown
