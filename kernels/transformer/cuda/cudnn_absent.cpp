// Replaces cudnn_attention.cpp in a build without cuDNN.
#include "kernels/device.hpp"
#include "kernels/transformer/cuda/attention.hpp"

namespace shakedown::cuda {

constexpr const char* no_cudnn = "this build has no cuDNN (it was not found when it was configured)";

std::unique_ptr<Attention> make_cudnn_attention(const AttentionShape&, bool) { throw Unsupported(no_cudnn); }

void plan_cudnn_attention(const AttentionShape&, bool, const DescribedGpu&) { throw Unsupported(no_cudnn); }

}  // namespace shakedown::cuda
