// The device that a rank measures with.
#pragma once

#include "base/names.hpp"

namespace shakedown {

/// virtual_gpu: a GPU that does not exist, whose times are computed (kernels/virtual).
enum class Backend { host, cuda, virtual_gpu };
constexpr auto words(Backend) { return names("host", "cuda", "virtual"); }

/// True for the backends of GPUs, real or virtual.
constexpr bool is_of_gpus(Backend backend) { return backend != Backend::host; }

}  // namespace shakedown
