// For builds without liburing.
#include "kernels/block_io/block_io.hpp"

namespace shakedown::block_io {

std::unique_ptr<BlockIo> uring_io() { return nullptr; }

}  // namespace shakedown::block_io
