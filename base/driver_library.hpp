// Loads the libraries of the NVIDIA driver. In containers and cloud images, these are in folders that only
// LD_LIBRARY_PATH names, and an empty environment does not have that variable.
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

/// An open library. If it could not be opened, one line names the library and the reason.
struct OpenedLibrary {
  Library library;
  std::string problem;
};

/// Returns the folders in which packages, containers, WSL and cloud images install the driver libraries.
std::vector<std::filesystem::path> driver_folders();

/// Opens a library. For a name ("libcuda.so.1"), the loader searches first, and then `folders` are searched in order. A
/// path is opened directly.
OpenedLibrary open_driver_library(const std::string& name,
                                  const std::vector<std::filesystem::path>& folders = driver_folders());

}  // namespace shakedown
