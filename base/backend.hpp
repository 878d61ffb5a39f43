// The device that a rank measures with.
#pragma once

#include "base/names.hpp"

namespace shakedown {

/// virtual_gpu: computed times of a GPU that is not there (kernels/virtual).
enum class Backend { host, cuda, virtual_gpu };
constexpr auto words(Backend) { return names("host", "cuda", "virtual"); }

/// True if GPUs are measured, or if their times are computed.
constexpr bool is_of_gpus(Backend backend) { return backend != Backend::host; }

}  // namespace shakedown
