// Libraries of NVIDIA's driver. Containers and cloud images keep them in folders that only LD_LIBRARY_PATH names, which
// an empty environment does not have.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace shakedown {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

/// A library that is open, or one line that names it and says why it is not.
struct OpenedLibrary {
  Library library;
  std::string problem;
};

/// Folders where packages, containers, WSL and cloud images keep the driver's libraries.
std::vector<std::filesystem::path> driver_folders();

/// Opens a library by its name ("libcuda.so.1") as the loader finds it, else in the first of these folders that has it;
/// or by its path.
OpenedLibrary open_driver_library(const std::string& name,
                                  const std::vector<std::filesystem::path>& folders = driver_folders());

}  // namespace shakedown
