// InfiniBand and RoCE ports as sysfs shows them, and whether a GPU's memory can be reached by a NIC. No root, no
// library of the vendor.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "node/fact.hpp"

namespace shakedown {

struct Port {
  std::string device;  // "mlx5_0"
  int number = 1;
  std::optional<std::string> state;           // "ACTIVE", "DOWN", "INIT"
  std::optional<std::string> physical_state;  // "LinkUp", "Polling", "Disabled"
  std::optional<std::string> link_layer;      // "InfiniBand" | "Ethernet"
  std::optional<double> rate_gbit;            // "400 Gb/sec (4X NDR)" is 400
  std::optional<std::string> gid_types;       // "IB/RoCE v1, RoCE v2"
  std::optional<std::string> firmware, pci;
  std::optional<int> numa;
  std::optional<double> link_downed;  // times that the link went down since the counters began

  std::string name() const { return device + "/" + std::to_string(number); }
  bool up() const { return state == "ACTIVE"; }
  bool infiniband() const { return link_layer == "InfiniBand"; }
};

/// None where the kernel knows no such device; nothing where /sys cannot be read.
std::optional<std::vector<Port>> read_ports(const std::filesystem::path& root);

/// One port, for a person or a program.
Facts port_facts(const Port&);

/// Of a host: ib_ports, ib_ports_down, roce_ports, roce_ports_down, ib_rate_gbit (the slowest that is up),
/// ib_link_downed (of all), ib_firmware.
Facts network_facts(const std::optional<std::vector<Port>>&);

/// gpudirect_rdma: 1 with the module that offers it, or 0.
Fact gpudirect_rdma(const std::filesystem::path& root);

}  // namespace shakedown
