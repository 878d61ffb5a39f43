#include "kernels/storage/gpu_direct.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"

namespace shakedown::storage {

std::string gpu_direct_text() {
  // The library is not loaded, because it would open the driver.
  constexpr std::array folders{"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                               "/usr/lib64"};
  const bool library = std::ranges::any_of(
      folders, [](const char* folder) { return is_visible(std::filesystem::path(folder) / "libcufile.so.0"); });
  return fmt::format("GPUDirect Storage: {} nvidia_fs, {}",
                     is_visible("/sys/module/nvidia_fs") ? "module" : "no module",
                     library ? "libcufile" : "no libcufile");
}

}  // namespace shakedown::storage
