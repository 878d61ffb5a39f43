#include "kernels/cuda/symmetric.hpp"

#include <dlfcn.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "kernels/cuda/facts.hpp"

namespace shakedown::cuda {

namespace {

constexpr int least_nccl_version = 22800;
constexpr int collective_symmetric = 1;  // NCCL_WIN_COLL_SYMMETRIC, which older headers lack

/// Functions that an older NCCL lacks. They are found at run time, so that programs start with any NCCL.
struct WindowFunctions {
  ncclResult_t (*allocate)(void**, std::size_t) = nullptr;
  ncclResult_t (*free)(void*) = nullptr;
  ncclResult_t (*enter)(ncclComm_t, void*, std::size_t, void** window, int flags) = nullptr;
  ncclResult_t (*leave)(ncclComm_t, void* window) = nullptr;

  WindowFunctions() {
    int version = 0;
    if (ncclGetVersion(&version) != ncclSuccess || version < least_nccl_version) return;
    find(allocate, "ncclMemAlloc");
    find(free, "ncclMemFree");
    find(enter, "ncclCommWindowRegister");
    find(leave, "ncclCommWindowDeregister");
  }

  bool are_complete() const { return allocate != nullptr && free != nullptr && enter != nullptr && leave != nullptr; }

 private:
  template <class Function>
  static void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  }
};

const WindowFunctions& functions() {
  static const WindowFunctions found;
  return found;
}

}  // namespace

Buffer symmetric_buffer(std::size_t bytes) {
  if (!functions().are_complete()) {
    throw MissingSoftware("memory:symmetric: this NCCL has no symmetric windows; install NCCL 2.28 or later");
  }
  if (nccl_setting("NCCL_NVLS_ENABLE") != "0") {
    throw Unsupported("memory:symmetric: NCCL may create multicast objects for windows; set NCCL_NVLS_ENABLE=0");
  }
  constexpr std::size_t vector = 16;  // the padding of a Buffer
  void* memory = nullptr;
  check(functions().allocate(&memory, (bytes + vector - 1) / vector * vector));
  return {DeviceMemory(memory, FreeMemory{functions().free}), bytes};
}

SymmetricWindow::SymmetricWindow(Communicator& communicator, const Buffer& buffer) : communicator_(communicator) {
  communicator_.call([&](ncclComm_t comm) {
    return functions().enter(comm, buffer.data(), buffer.padded_bytes(), &window_, collective_symmetric);
  });
}

/// Leaves the registration to the communicator if that is aborted, or if an exception propagates and will abort it.
SymmetricWindow::~SymmetricWindow() {
  if (window_ == nullptr || std::uncaught_exceptions() > 0) return;
  try {
    static_cast<void>(functions().leave(communicator_.get(), window_));
  } catch (const std::runtime_error&) {  // aborted
  }
}

/// A symmetric window is a structure in device memory, which NCCL's kernels read. Otherwise NCCL returns a registration
/// in host memory (2.28, dev_runtime.cc) or nothing.
bool SymmetricWindow::is_symmetric() const {
  cudaPointerAttributes attributes{};
  if (window_ == nullptr || cudaPointerGetAttributes(&attributes, window_) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // otherwise the next launch would report this error again
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice;
}

}  // namespace shakedown::cuda
