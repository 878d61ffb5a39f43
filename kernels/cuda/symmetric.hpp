// Buffers that NCCL knows as symmetric windows: the ranks read and write each other's buffers at equal offsets. NCCL
// has faster kernels for such buffers.
#pragma once

#include <cstddef>

#include "kernels/cuda/communicator.hpp"
#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

/// Allocates device memory of NCCL for a window. Errors: MissingSoftware if NCCL is older than 2.28, which is the first
/// version that tells whether a window is symmetric; Unsupported unless NCCL_NVLS_ENABLE=0. With that setting NCCL
/// creates no multicast objects for windows (2.27 to 2.30: each use depends on comm->nvlsSupport), otherwise it may.
Buffer symmetric_buffer(std::size_t bytes);

/// The registration of a buffer. The communicator and the buffer must outlive it.
class SymmetricWindow {
 public:
  /// Collective over the ranks of the communicator, with equal sizes. The buffer must be a symmetric_buffer.
  SymmetricWindow(Communicator&, const Buffer&);
  SymmetricWindow(const SymmetricWindow&) = delete;
  SymmetricWindow& operator=(const SymmetricWindow&) = delete;
  ~SymmetricWindow();

  /// False if NCCL has only registered the buffer, because GPUs have no peer access or are on several hosts. It then
  /// uses its usual kernels.
  bool is_symmetric() const;

 private:
  Communicator& communicator_;
  void* window_ = nullptr;
};

}  // namespace shakedown::cuda
