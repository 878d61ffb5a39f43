// Decides the role of each network port of a host.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "node/port.hpp"

namespace shakedown {

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
