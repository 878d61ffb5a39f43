// Owning wrappers for the handles of the CUDA libraries, and checks of their status codes.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <memory>
#include <source_location>
#include <type_traits>

#include "kernels/cuda/blas.hpp"

namespace shakedown::cuda {

/// Throws std::runtime_error unless the status is success. The text contains the caller's file, line and function, and
/// the library's text, name and number of the error.
void check(cudaError_t, std::source_location = std::source_location::current());
void check(cublasStatus_t, std::source_location = std::source_location::current());
void check(ncclResult_t, std::source_location = std::source_location::current());

/// Releases a handle by a function or by a member of Blas. The status is ignored: the handle is invalid in any case.
template <class Handle, auto give_back>
struct Release {
  using pointer = Handle;
  void operator()(Handle handle) const noexcept {
    if constexpr (std::is_member_pointer_v<decltype(give_back)>) {
      static_cast<void>((blas().*give_back)(handle));
    } else {
      static_cast<void>(give_back(handle));
    }
  }
};
template <class Handle, auto give_back>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Release<Handle, give_back>>;

/// Frees memory of CUDA, or of NCCL if the function of NCCL is set.
struct FreeMemory {
  ncclResult_t (*nccl_free)(void*) = nullptr;
  void operator()(void* memory) const noexcept {
    nccl_free != nullptr ? static_cast<void>(nccl_free(memory)) : static_cast<void>(cudaFree(memory));
  }
};
using DeviceMemory = std::unique_ptr<void, FreeMemory>;

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using IpcMapping = Owned<void*, cudaIpcCloseMemHandle>;
using BlasHandle = Owned<cublasLtHandle_t, &Blas::cublasLtDestroy>;
using CublasHandle = Owned<cublasHandle_t, &Blas::cublasDestroy>;
using MatmulDesc = Owned<cublasLtMatmulDesc_t, &Blas::cublasLtMatmulDescDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, &Blas::cublasLtMatrixLayoutDestroy>;
using MatmulPreference = Owned<cublasLtMatmulPreference_t, &Blas::cublasLtMatmulPreferenceDestroy>;

Stream make_stream();
/// Creates a stream with the highest priority: its blocks are scheduled before those of other streams.
Stream make_first_stream();
Event make_event();

}  // namespace shakedown::cuda
