#include "base/driver_library.hpp"

#include <utility>

#include "base/files.hpp"
#include "base/timed_call.hpp"

namespace shakedown {

namespace fs = std::filesystem;

std::vector<fs::path> driver_folders() {
  return {"/usr/lib/x86_64-linux-gnu",
          "/usr/lib/aarch64-linux-gnu",
          "/usr/lib64",
          "/usr/lib",
          "/usr/local/nvidia/lib64",
          "/usr/local/nvidia/lib",
          "/usr/lib/wsl/lib",
          "/run/nvidia/driver/usr/lib/x86_64-linux-gnu"};
}

OpenedLibrary open_driver_library(const std::string& name, const std::vector<fs::path>& folders) {
  const auto open = [](const std::string& file) -> OpenedLibrary {
    const TimedCall call(CallKind::driver, "load " + file);
    Library library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
    const char* const error = library ? "" : dlerror();
    return {std::move(library), error != nullptr ? error : file + ": cannot be loaded"};
  };
  auto opened = open(name);
  if (opened.library || name.find('/') != std::string::npos) return opened;
  for (const auto& folder : folders) {
    if (!is_visible(folder / name)) continue;
    auto found = open((folder / name).string());
    if (found.library) return found;
    opened.problem = found.problem;
  }
  return opened;
}

}  // namespace shakedown
