// Replaces cudnn_version.cpp in a build without cuDNN.
#include "kernels/cuda/facts.hpp"

namespace shakedown::cuda {

std::optional<std::size_t> cudnn_version() { return std::nullopt; }

}  // namespace shakedown::cuda
