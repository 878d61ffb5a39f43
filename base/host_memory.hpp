// The memory of a host, and what a process can still take of it. NVIDIA's processors present the HBM of each GPU as
// NUMA nodes without CPUs, which Linux counts as memory of the host; here it is not. `root` is the root of the file
// system.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// Returns the names of the NUMA nodes whose memory is a GPU's, such as "node1". On hosts with other processors, a node
/// without CPUs is the host's own memory, for example on CXL.
std::vector<std::string> gpu_memory_nodes(const std::filesystem::path& root);

/// Returns the host's memory in bytes; nullopt if the kernel does not tell.
std::optional<double> total_host_memory(const std::filesystem::path& root);

/// Returns the bytes that all processes together can still take; nullopt if the kernel does not tell.
std::optional<double> free_host_memory(const std::filesystem::path& root);

/// Returns free_host_memory, or less if a control group of this process (version 1 or 2) has a lower limit. A group's
/// cached files count as free.
std::optional<double> available_memory(const std::filesystem::path& root = "/");

}  // namespace shakedown
