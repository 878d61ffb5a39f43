// What can be known about a GPU and its libraries without touching its state.
#pragma once

#include "kernels/device.hpp"

namespace shakedown::cuda {

DeviceInfo read_facts(int ordinal);

}  // namespace shakedown::cuda
