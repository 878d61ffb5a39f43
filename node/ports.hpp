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
  std::optional<int> gid_index;       // of its first address of RoCE v2 that routers know: IPv4, or IPv6 of a site
  std::optional<std::string> netdev;  // "eth2", the interface of that address
  std::optional<double> mtu;          // of that interface; of InfiniBand /sys does not tell
  std::optional<std::string> firmware, pci;
  std::optional<int> numa;
  std::optional<double> link_downed;  // times that the link went down since the counters began

  std::string name() const { return device + "/" + std::to_string(number); }
  bool up() const { return state == "ACTIVE"; }
  bool waits() const { return state == "INIT" || state == "ARMED"; }  // for a subnet manager
  bool infiniband() const { return link_layer == "InfiniBand"; }
};

/// None where the kernel knows no such device; nothing where /sys cannot be read.
std::optional<std::vector<Port>> read_ports(const std::filesystem::path& root);

/// One port, for a person or a program.
Facts port_facts(const Port&);

/// Of a host: ib_ports, ib_ports_down, roce_ports, roce_ports_down, ib_rate_gbit (the slowest that is up),
/// ib_link_downed (of all), ib_firmware; roce_rate_gbit, roce_mtu (the least that is up), roce_gid_index ("3", or by
/// port where they differ), roce_ports_without_v2 (with their names), ports_slow: ports that are up, and slower than
/// most of their kind on this host; ib_ports_init: ports with a link that wait for a subnet manager.
Facts network_facts(const std::optional<std::vector<Port>>&);

/// Of a host: rails, the port that is nearest to each GPU ("GPU0 mlx5_0/1 PIX, GPU1 mlx5_3/1 PXB"), each taken once
/// where there are enough, and nics_far: GPUs whose port is behind the processor's own link (SYS). `gpus`: PCI
/// addresses in their order.
Facts rail_facts(const std::filesystem::path& root, const std::vector<std::string>& gpus,
                 const std::optional<std::vector<Port>>&);

/// gpudirect_rdma: 1 with what offers it, a module or the kernel's dma-buf, or 0.
Fact gpudirect_rdma(const std::filesystem::path& root);

}  // namespace shakedown
