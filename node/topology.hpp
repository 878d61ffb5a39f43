// Connections between the GPUs and NICs of a host, from the PCI tree of sysfs, in the notation of nvidia-smi topo.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// Returns the connection of two devices: "PIX" one switch, "PXB" several bridges, "PHB" the same root complex, "NODE"
/// the same NUMA node, "SYS" different nodes, "X" a device and itself. Returns nullopt if one of them is not on the bus
/// or its NUMA node is unknown.
std::optional<std::string> pci_distance(const std::filesystem::path& root, const std::string& a, const std::string& b);

/// Returns the NUMA node of a PCI function; nullopt if unknown (-1 on a machine with one node).
std::optional<int> numa_of(const std::filesystem::path& root, const std::string& pci);

/// A matrix whose rows and columns are devices.
struct Topology {
  struct Device {
    std::string name;  // "GPU0", "mlx5_0"
    std::optional<std::string> pci;
    int nvlinks = 0;  // number of active links; GPUs connected to an NVSwitch can use all of them to reach each other
  };
  std::vector<Device> devices;
  std::vector<std::vector<std::string>> links;  // "NV18", "PIX", ...; "?" if unknown
  std::vector<std::string> numa;                // per device; "?" if unknown
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
