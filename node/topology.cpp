#include "node/topology.hpp"

#include <algorithm>

#include "base/files.hpp"

namespace shakedown {

namespace {

/// Returns the path from the root complex to the device, such as "pci0000:15", "0000:15:01.0", and last the device.
std::vector<std::string> ancestry(const std::filesystem::path& root, const std::string& pci) {
  std::error_code error;
  const auto path = std::filesystem::canonical(root / "sys/bus/pci/devices" / pci, error);
  std::vector<std::string> found;
  if (error) return found;
  for (const auto& part : path) {
    if (!found.empty() || part.string().rfind("pci", 0) == 0) found.push_back(part);
  }
  if (!found.empty() && found.front() == "pci") found.clear();  // the path is outside of the tree: .../bus/pci/devices
  return found;
}

}  // namespace

std::optional<int> numa_of(const std::filesystem::path& root, const std::string& pci) {
  const auto node = number_of(root / "sys/bus/pci/devices" / pci / "numa_node");
  return node && *node >= 0 ? std::optional(static_cast<int>(*node)) : std::nullopt;
}

std::optional<std::string> pci_distance(const std::filesystem::path& root, const std::string& a, const std::string& b) {
  if (a == b) return "X";
  const auto from = ancestry(root, a), to = ancestry(root, b);
  if (from.empty() || to.empty()) return std::nullopt;
  const auto shared =
      static_cast<std::size_t>(std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first - from.begin());
  if (shared == 0) {
    const auto near = numa_of(root, a), far = numa_of(root, b);
    if (!near || !far) return std::nullopt;
    return *near == *far ? "NODE" : "SYS";
  }
  if (shared == 1) return "PHB";
  // Two devices below the same switch: after the shared port, each path has at most one port of the switch and the
  // device.
  return from.size() - shared <= 2 && to.size() - shared <= 2 ? "PIX" : "PXB";
}

Topology read_topology(const std::filesystem::path& root, std::vector<Topology::Device> devices) {
  Topology topology{std::move(devices), {}, {}};
  for (const auto& a : topology.devices) {
    std::vector<std::string> row;
    for (const auto& b : topology.devices) {
      if (&a == &b) {
        row.emplace_back("X");
      } else if (const int links = std::min(a.nvlinks, b.nvlinks); links > 0) {
        row.push_back("NV" + std::to_string(links));
      } else {
        row.push_back(a.pci && b.pci ? pci_distance(root, *a.pci, *b.pci).value_or("?") : "?");
      }
    }
    topology.links.push_back(std::move(row));
    const auto numa = a.pci ? numa_of(root, *a.pci) : std::nullopt;
    topology.numa.push_back(numa ? std::to_string(*numa) : "?");
  }
  return topology;
}

}  // namespace shakedown
