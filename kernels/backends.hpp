// The functions that every backend folder provides. A build without CUDA links kernels/cuda_absent.cpp instead of
// kernels/cuda/.
#pragma once

#include "kernels/device.hpp"

namespace shakedown::host {
Availability probe();
std::unique_ptr<Device> open_device(const Placement&);
}  // namespace shakedown::host

namespace shakedown::cuda {
Availability probe();
std::unique_ptr<Device> open_device(const Placement&);
}  // namespace shakedown::cuda
