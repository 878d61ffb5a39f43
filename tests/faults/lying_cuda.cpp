// CUDA libraries with faults, selected by SHAKEDOWN_LIE. On all ranks:
// - skip omits every third operation; among kernels, only those that stream over memory;
// - part executes half of each reduction or copy;
// - two reports two GPUs.
// On one rank:
// - skip_one omits one AllReduce;
// - async makes NCCL report an asynchronous error;
// - illegal makes a kernel write to an illegal address;
// - device makes opening the GPU fail;
// - memory makes an allocation of more than 1 MiB fail;
// - bits changes one bit of every product, far below its tolerance;
// - flip changes one bit of one in ten products, collectives, copies and streams over memory;
// - percent changes one element of every f32 product by 1 %;
// - sm makes SM 57 compute wrong bits in one of a thousand tile products.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstring>
#include <optional>

#include "kernels/cuda/stream.hpp"
#include "tests/faults/lie.hpp"
#include "tests/faults/planted.hpp"
#include "tests/kernels/cuda/faulty_sm.hpp"

namespace {

constexpr std::size_t measured_bytes = std::size_t{32} << 20;  // copies of at least this size are measured copies

bool streams(const void* kernel) {
  const char* name = nullptr;
  return cudaFuncGetName(&name, kernel) == cudaSuccess &&
         (std::strstr(name, "stream_kernel") != nullptr || std::strstr(name, "bulk_copy_kernel") != nullptr);
}

/// Launches the tile products of a faulty SM instead of this kernel. Returns nullopt if the kernel is another one.
std::optional<cudaError_t> faulty_tiles(const void* kernel, dim3 grid, std::size_t shared, void** arguments,
                                        cudaStream_t stream) {
  const char* name = nullptr;
  const bool is_sound = lie::told("sm") && cudaFuncGetName(&name, kernel) == cudaSuccess &&
                        std::strstr(name, "tile_kernel") != nullptr && std::strstr(name, "SoundSm") != nullptr;
  if (!is_sound) return std::nullopt;
  using namespace shakedown::cuda;
  const auto& run = *static_cast<const TileRun*>(arguments[0]);
  return launch_faulty_tiles(run, shared == slab_bytes(deep_slab_columns) ? deep_slab_columns : shallow_slab_columns,
                             grid.x, stream, {57, 1e-3F, 1});
}

bool skips(const void* kernel) {
  static lie::Calls calls;
  return lie::told("skip") && streams(kernel) && calls.every_third();
}

/// In one of ten operations, flips the lowest bit of a word in the middle of the buffer.
void flip_now_and_then(void* begin, std::size_t bytes, cudaStream_t stream) {
  static lie::Calls calls;
  if (lie::told("flip") && calls.one_in_ten()) flip_lowest_bit(static_cast<unsigned*>(begin) + bytes / 8, stream);
}

/// Flips a bit in the output of a kernel that streams over memory.
void flip_output(const void* kernel, void** arguments, cudaStream_t stream) {
  if (!lie::told("flip") || !streams(kernel)) return;
  const auto& operands = *static_cast<const shakedown::cuda::Operands*>(arguments[0]);
  if (operands.c != nullptr) flip_now_and_then(operands.c, operands.bytes, stream);
}

std::size_t size_of(ncclDataType_t type) { return type == ncclFloat32 ? 4 : 2; }

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
  static lie::Calls calls;
  static auto* const real = lie::real("ncclAllReduce", &ncclAllReduce);
  if (lie::told("skip") && calls.every_third()) return ncclSuccess;
  if (lie::told("skip_one") && calls.just_one()) {
    std::fputs("planted: one AllReduce is skipped\n", stderr);  // the seconds to the end count from here
    return ncclSuccess;
  }
  if (lie::told("illegal") && calls.just_one()) write_to_illegal_address(stream);
  const bool part = lie::told("part") && calls.all_later();
  const auto status = real(in, out, part ? (count + 1) / 2 : count, type, operation, communicator, stream);
  flip_now_and_then(out, count * size_of(type), stream);
  return status;
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  static auto* const real = lie::real("ncclAllGather", &ncclAllGather);
  const auto status = real(in, out, count, type, communicator, stream);
  flip_now_and_then(out, count * size_of(type), stream);
  return status;
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t communicator, cudaStream_t stream) {
  static auto* const real = lie::real("ncclReduceScatter", &ncclReduceScatter);
  const auto status = real(in, out, count, type, operation, communicator, stream);
  flip_now_and_then(out, count * size_of(type), stream);
  return status;
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  static auto* const real = lie::real("ncclBroadcast", &ncclBroadcast);
  const auto status = real(in, out, count, type, root, communicator, stream);
  flip_now_and_then(out, count * size_of(type), stream);
  return status;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  static lie::Calls calls;
  static auto* const real = lie::real("ncclCommGetAsyncError", &ncclCommGetAsyncError);
  const auto status = real(communicator, state);
  if (lie::told("async") && calls.all_later()) *state = ncclRemoteError;
  return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_is, const void* b, cublasLtMatrixLayout_t b_is, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_is, void* d, cublasLtMatrixLayout_t d_is,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  static lie::Calls calls;
  static auto* const real = lie::real("cublasLtMatmul", &cublasLtMatmul);
  if (lie::told("skip") && calls.every_third()) return CUBLAS_STATUS_SUCCESS;
  if (lie::told("illegal") && calls.just_one()) write_to_illegal_address(stream);
  const auto status = real(handle, operation, alpha, a, a_is, b, b_is, beta, c, c_is, d, d_is, algorithm, workspace,
                           workspace_bytes, stream);
  // Plants the fault in every matrix product, so that the last one has it.
  if (lie::told("bits")) flip_lowest_bit(static_cast<unsigned*>(d) + 4096, stream);
  flip_now_and_then(d, 8 * 4096, stream);
  if (lie::told("percent")) make_one_percent_more(static_cast<float*>(d) + 4096, stream);
  return status;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  static lie::Calls calls;
  static auto* const real = lie::real("cudaMemcpyAsync", &cudaMemcpyAsync);
  const bool measured = bytes >= measured_bytes;
  if (measured && lie::told("skip") && calls.every_third()) return cudaSuccess;
  const bool part = measured && lie::told("part") && calls.all_later();
  const auto status = real(to, from, part ? bytes / 2 : bytes, kind, stream);
  if (measured && (kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault)) flip_now_and_then(to, bytes, stream);
  return status;
}

// Code that the compiler generates for <<<>>> calls cudaLaunchKernel before CUDA 13, and the second function since.
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  using Launch = cudaError_t(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
  static auto* const real = lie::real<Launch>("cudaLaunchKernel", nullptr);
  if (skips(kernel)) return cudaSuccess;
  if (const auto launched = faulty_tiles(kernel, grid, shared, arguments, stream)) return *launched;
  const auto status = real(kernel, grid, block, arguments, shared, stream);
  flip_output(kernel, arguments, stream);
  return status;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  static auto* const real = lie::real("__cudaLaunchKernel", &__cudaLaunchKernel);
  if (skips(kernel)) return cudaSuccess;
  if (const auto launched = faulty_tiles(kernel, grid, shared, arguments, stream)) return *launched;
  const auto status = real(kernel, grid, block, arguments, shared, stream);
  flip_output(kernel, arguments, stream);
  return status;
}

cudaError_t cudaGetDeviceCount(int* count) {
  static auto* const real = lie::real("cudaGetDeviceCount", &cudaGetDeviceCount);
  if (!lie::told("two")) return real(count);
  *count = 2;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal) {
  static auto* const real = lie::real("cudaSetDevice", &cudaSetDevice);
  return lie::told("device") ? cudaErrorDevicesUnavailable : real(ordinal);
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  static lie::Calls calls;
  using Malloc = cudaError_t(void**, std::size_t);
  static auto* const real = lie::real<Malloc>("cudaMalloc", nullptr);
  if (bytes > (std::size_t{1} << 20) && lie::told("memory") && calls.all_later()) return cudaErrorMemoryAllocation;
  return real(memory, bytes);
}

}  // extern "C"
