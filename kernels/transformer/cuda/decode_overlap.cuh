// Kernels that overlap with the end of the previous kernel of a stream (CUDA programming guide, "Programmatic Dependent
// Launch"). Each kernel of such a stream must call both functions, because a kernel only waits for its predecessor.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

/// Lets the next kernel start when all blocks of this kernel have started.
__device__ inline void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the previous kernel is complete and its writes are visible.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Copies 16 bytes to shared memory, or writes zeros. `from` is valid in both cases.
__device__ inline void copy_async(void* shared, const void* from, bool is_zero) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(from), "r"(is_zero ? 0 : 16)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `pending` of the last groups of copies of this thread are incomplete.
template <int pending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Requests memory that this or another kernel will read. Address and size are multiples of 16 bytes.
__device__ inline void prefetch_to_l2(const void* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

/// Launches a kernel that may overlap with the previous one. The largest shared memory is selected for each kernel: a
/// multiprocessor must be idle to change its size.
template <class... Parameters, class... Arguments>
void launch_overlapping(void (*kernel)(Parameters...), dim3 grid, unsigned threads, std::size_t shared_bytes,
                        cudaStream_t stream, bool can_overlap, Arguments... arguments) {
  const auto set = [&](cudaFuncAttribute attribute, int value) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value));
  };
  set(cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  set(cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = can_overlap ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

}  // namespace shakedown::cuda
