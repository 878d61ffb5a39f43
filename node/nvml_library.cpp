#include "node/nvml_library.hpp"

namespace shakedown {
namespace {

std::string text_of(abi::Return status) {
  switch (status) {
    case abi::uninitialized: return "NVML is not initialised";
    case abi::invalid_argument: return "NVML refuses the argument";
    case abi::not_supported: return "not supported";
    case abi::no_permission: return "no permission";
    case abi::not_found: return "NVML does not know this GPU";
    case abi::driver_not_loaded: return "the NVIDIA driver is not loaded";
    case abi::timeout: return "the driver did not answer in time";
    case abi::function_not_found: return "not in this version of the library";
    case abi::gpu_is_lost: return "the GPU has fallen off the bus or is otherwise inaccessible";
    case abi::library_version_mismatch: return "the library and the driver have different versions";
    case abi::no_data: return "no data";
    default: return "NVML error " + std::to_string(status);
  }
}

}  // namespace

std::string NvmlLibrary::reason(abi::Return status) { return status == abi::success ? "" : text_of(status); }

}  // namespace shakedown
