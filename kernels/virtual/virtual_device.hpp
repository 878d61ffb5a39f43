// The virtual backend: a GPU whose operations take computed times on a clock of its own. The virtual backend shows how
// long a run would take on a chip that is not at hand, and runs everything above device.hpp without a GPU. The backend
// moves no data.
#pragma once

#include <memory>

#include "kernels/device.hpp"
#include "kernels/virtual/chip.hpp"

namespace shakedown::virtual_gpu {

std::unique_ptr<Device> open_device(const Chip&, const Placement&);

}  // namespace shakedown::virtual_gpu
