// Bulk copies, as described in the PTX ISA under "cp.async.bulk" and "mbarrier". A barrier that counts bytes signals
// that data has arrived in shared memory. A stage is refilled after its store has finished reading shared memory.
#include "kernels/cuda/bulk.hpp"

#include <stdexcept>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

namespace {

struct BulkShape {
  unsigned stages;
  unsigned stage_bytes;
  bool walks;  // if true, the grid strides over the arrays; if false, each block takes one tile of `stages` stages
  bool streaming;
};

#if __CUDA_ARCH__ >= 900

/// The parts of the array that a block processes, in order. A part has the size of a stage; the last part of the array
/// may be shorter. Parts consist of whole vectors and do not cover a remainder smaller than a vector.
struct Parts {
  std::size_t first, step, count, end;  // `end` is in bytes and consists of whole vectors
  unsigned part_bytes;

  __device__ Parts(std::size_t bytes, const BulkShape& shape)
      : first(shape.walks ? blockIdx.x : static_cast<std::size_t>(blockIdx.x) * shape.stages),
        step(shape.walks ? gridDim.x : 1),
        count(0),
        end(bytes / sizeof(uint4) * sizeof(uint4)),
        part_bytes(shape.stage_bytes) {
    const std::size_t parts = (end + part_bytes - 1) / part_bytes;
    if (first >= parts) return;
    count = (parts - first + step - 1) / step;
    if (!shape.walks && count > shape.stages) count = shape.stages;
  }
  __device__ std::size_t offset(std::size_t k) const { return (first + k * step) * part_bytes; }
  __device__ unsigned size(std::size_t k) const {
    const std::size_t left = end - offset(k);
    return left < part_bytes ? static_cast<unsigned>(left) : part_bytes;
  }
};

__device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ std::uint64_t cache_policy(bool streaming) {
  std::uint64_t policy;
  if (streaming) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

/// The barriers and buffers of the stages, and the operations that one thread performs on them.
struct Stages {
  std::uint64_t* barriers;
  unsigned char* memory;
  unsigned count, bytes;
  std::uint64_t policy;

  __device__ unsigned char* stage(std::size_t k) const { return memory + k % count * bytes; }

  __device__ void init() const {
    for (unsigned s = 0; s < count; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barriers + s)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  /// Starts to load part k into its stage.
  __device__ void fill(const Parts& parts, std::size_t k, const void* source) const {
    const auto barrier = shared_address(barriers + k % count);
    const auto size = parts.size(k);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(size) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
            "r"(shared_address(stage(k))),
        "l"(static_cast<const unsigned char*>(source) + parts.offset(k)), "r"(size), "r"(barrier), "l"(policy)
        : "memory");
  }

  /// Waits until part k has arrived.
  __device__ void wait(std::size_t k) const {
    const auto barrier = shared_address(barriers + k % count);
    const auto parity = static_cast<unsigned>(k / count & 1);
    unsigned done = 0;
    while (done == 0) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(barrier), "r"(parity)
                   : "memory");
    }
  }

  /// Starts to store part k.
  __device__ void empty(const Parts& parts, std::size_t k, void* target) const {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(
                     static_cast<unsigned char*>(target) + parts.offset(k)),
                 "r"(shared_address(stage(k))), "r"(parts.size(k)), "l"(policy)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
};

__device__ Stages stages_of(const BulkShape& shape, std::uint64_t* barriers, unsigned char* memory) {
  return {barriers, memory, shape.stages, shape.stage_bytes, cache_policy(shape.streaming)};
}

#endif

__global__ void bulk_copy_kernel(Operands o, BulkShape shape) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ std::uint64_t barriers[max_bulk_stages];
  const Parts parts(o.bytes, shape);
  if (blockIdx.x == 0) {  // the remainder that is smaller than a vector
    const auto i = parts.end + threadIdx.x;
    if (i < o.bytes) static_cast<unsigned char*>(o.c)[i] = static_cast<const unsigned char*>(o.a)[i];
    if (threadIdx.x == 0 && o.mark != nullptr) *o.mark = o.bytes;
  }
  if (threadIdx.x != 0) return;
  const auto stages = stages_of(shape, barriers, memory);
  stages.init();
  for (std::size_t k = 0; k < stages.count && k < parts.count; ++k) stages.fill(parts, k, o.a);
  for (std::size_t k = 0; k < parts.count; ++k) {
    stages.wait(k);
    stages.empty(parts, k, o.c);
    // The stage of the previous part is free once its store has read shared memory. The next line waits for all stores
    // but the newest one.
    if (k == 0 || k - 1 + stages.count >= parts.count) continue;
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    stages.fill(parts, k - 1 + stages.count, o.a);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

__global__ void bulk_read_kernel(Operands o, BulkShape shape) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ std::uint64_t barriers[max_bulk_stages];
  const Parts parts(o.bytes, shape);
  const auto stages = stages_of(shape, barriers, memory);
  if (threadIdx.x == 0) {
    stages.init();
    for (std::size_t k = 0; k < stages.count && k < parts.count; ++k) stages.fill(parts, k, o.a);
  }
  __syncthreads();
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < parts.count; ++k) {
    stages.wait(k);
    const auto* const vectors = reinterpret_cast<const ulonglong2*>(stages.stage(k));
    const auto count = parts.size(k) / sizeof(ulonglong2);
    for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) sum += vectors[i].x + vectors[i].y;
    if (k + stages.count >= parts.count) continue;
    __syncthreads();  // all threads are done with the stage
    if (threadIdx.x == 0) stages.fill(parts, k + stages.count, o.a);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0 && parts.end < o.bytes) {  // the remainder is one word
    sum += static_cast<const std::uint64_t*>(o.a)[parts.end / sizeof(std::uint64_t)];
  }
  store_block_sum(sum, o.sums + blockIdx.x);
#endif
}

using BulkKernel = void (*)(Operands, BulkShape);

BulkKernel kernel_for(HbmOp op) {
  if (op == HbmOp::copy) return bulk_copy_kernel;
  if (op == HbmOp::read) return bulk_read_kernel;
  throw std::invalid_argument("bulk: copy and read only");
}

}  // namespace

void bulk_over(cudaStream_t stream, HbmOp op, const Operands& operands, const StreamShape& shape, unsigned blocks) {
  constexpr unsigned always_there = 32 * 1024;  // a kernel that needs more shared memory must opt in
  const auto kernel = kernel_for(op);
  const auto memory = static_cast<unsigned>(shape.unroll * shape.stage_bytes);
  if (memory > always_there) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(memory)));
  }
  const BulkShape bulk{static_cast<unsigned>(shape.unroll), static_cast<unsigned>(shape.stage_bytes),
                       shape.blocks_per_sm > 0, shape.hint == Hint::streaming};
  kernel<<<blocks, static_cast<unsigned>(shape.threads), memory, stream>>>(operands, bulk);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
