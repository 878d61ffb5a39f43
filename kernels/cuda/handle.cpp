// Error messages, and functions that create handles.
#include "kernels/cuda/handle.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

namespace shakedown::cuda {

namespace {

/// Returns the last two components of a path, such as "cuda/hbm.cpp".
std::string_view short_path(std::string_view path) {
  const auto file = path.rfind('/');
  if (file == std::string_view::npos || file == 0) return path;
  const auto folder = path.rfind('/', file - 1);
  return folder == std::string_view::npos ? path : path.substr(folder + 1);
}

[[noreturn]] void fail(const std::source_location& where, std::string_view text, std::string_view name, int code) {
  throw std::runtime_error(std::string(short_path(where.file_name())) + ":" + std::to_string(where.line()) + " in " +
                           where.function_name() + ": " + std::string(text) + " (" + std::string(name) + ", " +
                           std::to_string(code) + ")");
}

}  // namespace

void check(cudaError_t status, std::source_location where) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // otherwise the next launch would report this error again
  fail(where, cudaGetErrorString(status), cudaGetErrorName(status), static_cast<int>(status));
}

void check(cublasStatus_t status, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(where, blas().cublasLtGetStatusString(status), blas().cublasLtGetStatusName(status), static_cast<int>(status));
}

void check(ncclResult_t status, std::source_location where) {
  if (status == ncclSuccess) return;
  std::string text = ncclGetErrorString(status);
  const char* last = ncclGetLastError(nullptr);
  if (last != nullptr && *last != '\0') text += ": " + std::string(last);
  fail(where, text, "ncclResult_t", static_cast<int>(status));
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

Stream make_first_stream() {
  int last = 0, first = 0;
  check(cudaDeviceGetStreamPriorityRange(&last, &first));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, first));
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event));
  return Event(event);
}

}  // namespace shakedown::cuda
