// For builds without liburing.
#include "kernels/storage/block_io.hpp"

namespace shakedown::storage {

std::unique_ptr<BlockIo> uring_io() { return nullptr; }

}  // namespace shakedown::storage
