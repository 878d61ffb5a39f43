// How GPUs and NICs of a host are connected, as the PCI tree of sysfs shows it, in the words of nvidia-smi topo.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// "PIX" one switch, "PXB" several bridges, "PHB" the same root complex, "NODE" the same NUMA node, "SYS" farther;
/// "X" for a device and itself; nothing where one of them is not on the bus or its NUMA node is unknown.
std::optional<std::string> pci_distance(const std::filesystem::path& root, const std::string& a, const std::string& b);

/// The NUMA node of a PCI function; nothing where it is unknown (-1 on a machine with one).
std::optional<int> numa_of(const std::filesystem::path& root, const std::string& pci);

/// Rows and columns are devices.
struct Topology {
  struct Device {
    std::string name;  // "GPU0", "mlx5_0"
    std::optional<std::string> pci;
    int nvlinks = 0;  // that are up; GPUs behind an NVSwitch reach each other by all of them
  };
  std::vector<Device> devices;
  std::vector<std::vector<std::string>> links;  // "NV18", "PIX", ...; "?" unknown
  std::vector<std::string> numa;                // of each device; "?" unknown
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
