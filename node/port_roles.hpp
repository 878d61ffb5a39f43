// The role of each network port of a host. Rails are the ports that carry data between GPUs of different hosts. Only
// rails are counted, compared and expected to be up.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace shakedown {

struct Port;

enum class PortRole {
  rail,
  other_network,     // a port for storage or management
  front_end,         // the port of the default route
  virtual_function,  // a virtual function that belongs to a guest or a container
  switch_bridge,     // a port that manages the NVSwitches of an HGX B200 or B300
  unused             // a port that has no cable on this NIC and on all other NICs of the host
};

/// Returns "rail", "other network", "front end", "virtual function", "switch bridge" or "unused port".
std::string_view name(PortRole);

/// Sets the role of each port and the reason for it, in these steps:
/// - sysfs shows virtual functions (physfn), the VPD shows bridges to NVSwitches (SW_MNG, NVIDIA Fabric Manager user
///   guide), and the routing table shows the interface of the default route.
/// - If each NIC has only one port that is connected, its other port is unused.
/// - All rails have the same link layer: the one with the highest total rate.
/// - If at least one port for two GPUs is below a PCIe switch with a GPU, only such ports are rails.
/// - All rails have the same rate, and a host has 1, 2, 4, 8, 16 or 32 rails. If the ports with the most frequent rate
///   are such a number, slower ports are another network. If slower ports complete such a number, they are slow rails.
///
/// `gpus` are PCI addresses. `named` are the rails that a site file names ("mlx5_3/1"). If there are any, they replace
/// all steps but the first.
void assign_roles(const std::filesystem::path& root, const std::vector<std::string>& gpus,
                  const std::vector<std::string>& named, std::vector<Port>& ports);

}  // namespace shakedown
