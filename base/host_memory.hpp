// The memory that a process can still take on its host.
#pragma once

#include <filesystem>
#include <optional>

namespace shakedown {

/// Returns bytes: MemAvailable of the kernel, or less if a control group (version 2) of the process has a lower limit.
/// A group's cached files count as free. With NVIDIA's processors the kernel also counts the memory of GPUs. Returns
/// nullopt if the kernel does not tell. `root` is the root of the file system.
std::optional<double> available_memory(const std::filesystem::path& root = "/");

}  // namespace shakedown
