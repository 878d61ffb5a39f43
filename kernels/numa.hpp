// NUMA nodes whose memory is the host's, for buffers that a GPU copies from and to.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shakedown {

inline constexpr int max_numa_nodes = 1024;

/// Returns the node that Linux reports for a PCI device ("0000:1b:00.0"), or the nearest node with CPUs if that node
/// has none. On Grace the memory of each GPU is a node without CPUs, and a buffer there would be in the GPU itself.
/// Returns nullopt if there is only one node or the node is unknown.
std::optional<int> host_node_of(const std::filesystem::path& root, const std::string& pci);

/// Returns another node that has CPUs and memory; nullopt if there is none.
std::optional<int> node_far_from(const std::filesystem::path& root, int node);

}  // namespace shakedown
