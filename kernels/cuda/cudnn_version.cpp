#include <cudnn.h>

#include "kernels/cuda/facts.hpp"

namespace shakedown::cuda {

std::optional<std::size_t> cudnn_version() { return cudnnGetVersion(); }

}  // namespace shakedown::cuda
