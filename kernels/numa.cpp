#include "kernels/numa.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "base/files.hpp"

namespace shakedown {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& root, int node) {
  return root / "sys/devices/system/node" / ("node" + std::to_string(node));
}

bool has_cpus(const std::filesystem::path& root, int node) {
  return line_of(folder_of(root, node) / "cpulist").has_value();  // an empty line without CPUs
}

bool has_memory(const std::filesystem::path& root, int node) {
  // A line is "Node 1 MemTotal: 1234 kB". The line shows 0 for a node that has only CPUs.
  std::ifstream in(folder_of(root, node) / "meminfo");
  std::string word;
  while (in >> word && word != "MemTotal:") {
  }
  double total = 0;
  return in >> total && total > 0;
}

/// Returns the node with CPUs to which Linux states the least distance ("10 80 40": one number per node that is online,
/// in their order); nullopt if none is stated.
std::optional<int> nearest_with_cpus(const std::filesystem::path& root, int node) {
  std::istringstream distances(line_of(folder_of(root, node) / "distance").value_or(""));
  std::optional<int> nearest;
  int least = 0;
  for (int other = 0, distance = 0; other < max_numa_nodes; ++other) {
    if (!is_visible(folder_of(root, other))) continue;
    if (!(distances >> distance)) break;
    if (!has_cpus(root, other) || (nearest && distance >= least)) continue;
    nearest = other;
    least = distance;
  }
  return nearest;
}

}  // namespace

std::optional<int> host_node_of(const std::filesystem::path& root, const std::string& pci) {
  auto address = pci;
  std::transform(address.begin(), address.end(), address.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto node = number_of(root / "sys/bus/pci/devices" / address / "numa_node");
  if (!node || *node < 0 || *node >= max_numa_nodes) return std::nullopt;
  const int found = static_cast<int>(*node);
  return has_cpus(root, found) || !is_visible(folder_of(root, found)) ? found : nearest_with_cpus(root, found);
}

std::optional<int> node_far_from(const std::filesystem::path& root, int node) {
  for (int other = 0; other < max_numa_nodes; ++other) {
    if (other != node && has_cpus(root, other) && has_memory(root, other)) return other;
  }
  return std::nullopt;
}

}  // namespace shakedown
