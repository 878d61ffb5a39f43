// The role of each network port of a host. Only rails, the ports that carry data between GPUs of different hosts, are
// counted, compared and expected to be up.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace shakedown {

struct Port;

enum class PortRole {
  rail,
  other_network,     // storage or management
  front_end,         // carries the default route
  virtual_function,  // belongs to a guest or a container
  switch_bridge,     // manages the NVSwitches of an HGX B200 or B300
  unused             // the second port of a NIC that is not connected on any NIC of the host
};

/// Returns "rail", "other network", "front end", "virtual function", "switch bridge" or "unused port".
std::string_view name(PortRole);

/// Sets the role of each port and the reason for it. In this order:
/// - sysfs names virtual functions (physfn), the VPD names bridges to NVSwitches (SW_MNG, NVIDIA Fabric Manager user
///   guide), and the routing table names the interface of the default route.
/// - A port that is down next to a port of the same NIC that is up is unused, if this holds for every NIC.
/// - Rails have one link layer: the one with the highest total rate.
/// - Ports below a PCIe switch with a GPU are rails, and no others, if there is at least one for two GPUs.
/// - Rails have one rate. Hosts have 1, 2, 4, 8, 16 or 32 rails. If the ports with the most frequent rate are that
/// many,
///   slower ports are another network; if slower ports complete such a number, they are slow rails.
/// `gpus`: PCI addresses. `named`: the rails that a site file names ("mlx5_3/1"), which replace all but the first step;
/// empty for none.
void assign_roles(const std::filesystem::path& root, const std::vector<std::string>& gpus,
                  const std::vector<std::string>& named, std::vector<Port>& ports);

}  // namespace shakedown
