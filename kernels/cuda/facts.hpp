// Facts about a GPU and its libraries that can be read without changing its state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/device.hpp"

namespace shakedown::cuda {

DeviceInfo read_facts(int ordinal);

/// Returns 91400 for 9.14.0; nullopt if this build has no cuDNN.
std::optional<std::size_t> cudnn_version();

/// Returns a variable as NCCL sees it: from the environment, else from the user's configuration file, else from the
/// system's.
std::optional<std::string> nccl_setting(const std::string& name);

}  // namespace shakedown::cuda
