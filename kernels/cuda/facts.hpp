// What can be known about a GPU and its libraries without touching its state.
#pragma once

#include <optional>
#include <string>

#include "kernels/device.hpp"

namespace shakedown::cuda {

DeviceInfo read_facts(int ordinal);

/// A variable as NCCL sees it: from the environment, else from the user's configuration file, else from the system's.
std::optional<std::string> nccl_setting(const std::string& name);

}  // namespace shakedown::cuda
