// The same on every backend: each rank has a processor.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace shakedown {

std::unique_ptr<Work> make_jitter(const JitterSpec&);

}  // namespace shakedown
