// Replaces kernels/cuda/ in a build without the CUDA Toolkit, so that the program can report that the backend is
// missing.
#include "kernels/backends.hpp"

namespace shakedown::cuda {

Availability probe() {
  return {0, "this build has no CUDA backend (the CUDA Toolkit was not found when it was configured)"};
}

std::unique_ptr<Device> open_device(const Placement&) { throw std::runtime_error(probe().reason); }

}  // namespace shakedown::cuda
