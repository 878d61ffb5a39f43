// How GPUs and NICs of a host are connected, from the PCI tree of sysfs. The notation is that of nvidia-smi topo.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// Returns how two devices are connected: "PIX" one switch, "PXB" several bridges, "PHB" the same root complex, "NODE"
/// the same NUMA node, "SYS" different NUMA nodes, "X" the same device. nullopt if one device is not on the bus or its
/// NUMA node is unknown.
std::optional<std::string> pci_distance(const std::filesystem::path& root, const std::string& a, const std::string& b);

/// Returns the NUMA node of a PCI function; nullopt if it is unknown (sysfs shows -1 on a machine with one node).
std::optional<int> numa_of(const std::filesystem::path& root, const std::string& pci);

/// A matrix whose rows and columns are devices.
struct Topology {
  struct Device {
    std::string name;  // such as "GPU0" or "mlx5_0"
    std::optional<std::string> pci;
    int nvlinks = 0;  // number of active links to the NVSwitches; two GPUs can use all their links to reach each other
  };
  std::vector<Device> devices;
  std::vector<std::vector<std::string>> links;  // "NV18", "PIX", ...; "?" if it is unknown
  std::vector<std::string> numa;                // by device; "?" if it is unknown
};
template <class Archive>
void members(Archive& archive, Topology::Device& device) {
  archive("name", device.name)("pci", device.pci)("nvlinks", device.nvlinks);
}
template <class Archive>
void members(Archive& archive, Topology& topology) {
  archive("devices", topology.devices)("links", topology.links)("numa", topology.numa);
}

Topology read_topology(const std::filesystem::path& root, std::vector<Topology::Device> devices);

}  // namespace shakedown
