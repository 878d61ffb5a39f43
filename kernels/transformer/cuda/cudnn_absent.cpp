// Replaces cudnn_attention.cpp in a build without cuDNN.
#include "kernels/device.hpp"
#include "kernels/transformer/cuda/attention.hpp"

namespace shakedown::cuda {

std::unique_ptr<Attention> make_cudnn_attention(const AttentionShape&, bool) {
  throw Unsupported("this build has no cuDNN (it was not found when it was configured)");
}

}  // namespace shakedown::cuda
