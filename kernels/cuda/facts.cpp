// Facts about the GPU: identity from the CUDA runtime, versions from the libraries, NVLS from the GPU and NCCL's
// settings. The state of the GPU (clocks, power, errors) is read elsewhere.
#include "kernels/cuda/facts.hpp"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>

#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

namespace {

/// Formats a UUID as nvidia-smi does: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
std::string uuid_text(const cudaUUID_t& uuid) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

/// Returns the PCI address as Linux writes it, such as 0000:1b:00.0.
std::string pci_text(int ordinal) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), ordinal));
  std::string lower = text.data();
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

bool is_version(const std::string& word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
         word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
}

/// Returns the version of the kernel module, such as 580.159.03. cudaDriverGetVersion returns the CUDA version that the
/// driver supports instead.
std::optional<std::string> driver_version() {
  for (const auto* path : {"/sys/module/nvidia/version", "/proc/driver/nvidia/version"}) {
    std::ifstream in(path);
    for (std::string word; in >> word;) {
      if (is_version(word)) return word;
    }
  }
  return std::nullopt;
}

std::string dotted(std::size_t code, std::size_t major, std::size_t minor) {
  return std::to_string(code / major) + "." + std::to_string(code % major / minor) + "." + std::to_string(code % minor);
}

std::map<std::string, std::string> versions() {
  std::map<std::string, std::string> found;
  if (const auto driver = driver_version()) found["driver"] = *driver;
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime));  // 13000
  found["cuda"] = std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10);
  found["cublaslt"] = dotted(blas().cublasLtGetVersion(), 10000, 100);  // 130002
  int nccl = 0;
  check(ncclGetVersion(&nccl));  // 22803
  found["nccl"] = dotted(static_cast<std::size_t>(nccl), 10000, 100);
  if (const auto cudnn = cudnn_version()) found["cudnn"] = dotted(*cudnn, 10000, 100);  // 91400
  return found;
}

template <class Function>
Function* driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const auto status = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result);
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  const bool found = status == cudaSuccess && result == cudaDriverEntryPointSuccess;
  return found ? reinterpret_cast<Function*>(function) : nullptr;
}

/// True if the GPU and its fabric support multicast, which NVLS needs; nullopt if unknown. Only queries an attribute
/// and creates nothing.
std::optional<bool> multicast_supported(int ordinal) {
  const auto get_device = driver_function<CUresult(CUdevice*, int)>("cuDeviceGet");
  const auto get_attribute = driver_function<CUresult(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute");
  CUdevice device = 0;
  int supported = 0;
  if (get_device == nullptr || get_attribute == nullptr || get_device(&device, ordinal) != CUDA_SUCCESS ||
      get_attribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return supported != 0;
}

/// Returns "off" if NVLS is disabled or the GPU does not support multicast, "on" if NCCL is free to use it, and nullopt
/// if the user selected algorithms.
std::optional<std::string> nvls(const std::optional<bool>& multicast) {
  if (nccl_setting("NCCL_NVLS_ENABLE") == "0") return "off";
  if (!multicast) return std::nullopt;
  if (!*multicast) return "off";
  if (nccl_setting("NCCL_ALGO")) return std::nullopt;
  return "on";
}

}  // namespace

std::optional<std::string> nccl_setting(const std::string& name) {
  if (const char* value = std::getenv(name.c_str())) return value;
  const char* file = std::getenv("NCCL_CONF_FILE");
  const char* home = std::getenv("HOME");
  const std::string user_file = file != nullptr ? file : home != nullptr ? std::string(home) + "/.nccl.conf" : "";
  for (const auto& path : {user_file, std::string("/etc/nccl.conf")}) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      if (line.compare(0, name.size() + 1, name + "=") == 0) return line.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

DeviceInfo read_facts(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal));
  DeviceInfo info;
  info.name = properties.name;
  info.uuid = uuid_text(properties.uuid);
  info.pci = pci_text(ordinal);
  info.memory_bytes = properties.totalGlobalMem;
  info.versions = versions();
  info.multicast = multicast_supported(ordinal);
  info.nvls = nvls(info.multicast);
  return info;
}

}  // namespace shakedown::cuda
