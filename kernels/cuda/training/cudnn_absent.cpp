// Stands in for cudnn_attention.cpp in a build without cuDNN.
#include "kernels/cuda/training/attention.hpp"
#include "kernels/device.hpp"

namespace shakedown::cuda {

std::unique_ptr<Attention> make_cudnn_attention(const AttentionShape&, bool) {
  throw Unsupported("this build has no cuDNN (it was not found when it was configured)");
}

std::optional<std::size_t> cudnn_version() { return std::nullopt; }

}  // namespace shakedown::cuda
