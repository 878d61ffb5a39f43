// InfiniBand and RoCE ports from sysfs, and support of GPUDirect RDMA. Needs no root privileges and no vendor library.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/gpu_health.hpp"
#include "node/fact.hpp"
#include "node/port_roles.hpp"

namespace shakedown {

struct Port {
  std::string device;  // "mlx5_0"
  int number = 1;
  std::optional<std::string> state;           // "ACTIVE", "DOWN", "INIT"
  std::optional<std::string> physical_state;  // "LinkUp", "Polling", "Disabled"
  std::optional<std::string> link_layer;      // "InfiniBand" | "Ethernet"
  std::optional<double> rate_gbit;            // "400 Gb/sec (4X NDR)" is 400
  std::optional<std::string> gid_types;       // "IB/RoCE v1, RoCE v2"
  std::optional<int> gid_index;       // of its first routable RoCE v2 address: IPv4, or IPv6 that is not link-local
  std::optional<std::string> netdev;  // "eth2", the interface of that address
  std::optional<double> mtu;          // of that interface; sysfs does not report it for InfiniBand
  std::optional<std::string> trust;   // of that interface: "dscp" or "pcp" decides the priority of a packet
  std::optional<bool> ecn;            // marks of switches slow the sender down, on one priority at least
  std::optional<std::string> firmware, pci;
  std::optional<int> numa;
  // Since the counters began: the link went down, recovered by itself, lost a symbol, or received a damaged packet.
  std::optional<double> link_downed, link_recoveries, symbol_errors, receive_errors;
  PortRole role = PortRole::rail;
  std::string role_reason = {};

  std::string name() const { return device + "/" + std::to_string(number); }
  bool up() const { return state == "ACTIVE"; }
  bool waits() const { return state == "INIT" || state == "ARMED"; }  // for a subnet manager
  bool linked() const { return up() || waits(); }
  bool infiniband() const { return link_layer == "InfiniBand"; }
  bool ethernet() const { return link_layer == "Ethernet"; }  // EFA is neither: its link layer is "Unknown"
};

/// Returns all ports with their roles; empty if the kernel has no such device, nullopt if /sys cannot be read. `gpus`:
/// PCI addresses. `named`: the rails of a site file, empty for none.
std::optional<std::vector<Port>> read_ports(const std::filesystem::path& root, const std::vector<std::string>& gpus,
                                            const std::vector<std::string>& named = {});

/// Returns the ports that are rails.
std::vector<Port> rails_of(const std::optional<std::vector<Port>>&);

/// Error counters by port ("mlx5_3/1").
using PortErrors = std::map<std::string, ErrorCounts>;

/// Returns link_downed, link_recoveries, symbol_errors and receive_errors of these ports; omits those that cannot be
/// read.
PortErrors port_errors(const std::filesystem::path& root, const std::vector<std::string>& ports);

/// Returns the increase of the counters that are in both; omits the others.
PortErrors grown(const PortErrors& before, const PortErrors& after);

/// Returns the facts of one port, for display or for programs.
Facts port_facts(const Port&);

/// Returns facts of a host, of rails only: ib_ports, ib_ports_down, roce_ports, roce_ports_down, ib_rate_gbit (the
/// slowest active port), ib_link_downed (the sum), ib_firmware, roce_rate_gbit, roce_mtu (the smallest of active
/// ports), roce_gid_index ("3", or by port if they differ), roce_ports_without_v2 (with their names). ports_slow:
/// active ports that are slower than most. ib_ports_init: ports with a link that wait for a subnet manager.
/// ports_with_errors: ports whose counters show recoveries, lost symbols or damaged packets. nics: active rails of any
/// link layer. roce_without_dscp, roce_without_ecn:
/// rails whose NIC says so; NVIDIA's driver package has the files, Linux has not. rail_ports: the rails in words.
/// rail_names: their names, sorted.
Facts network_facts(const std::optional<std::vector<Port>>&);

/// Returns facts of a host: rails, the port nearest to each GPU ("GPU0 mlx5_0/1 PIX, GPU1 mlx5_3/1 PXB"), each assigned
/// once if there are enough ports; and nics_far: GPUs whose port is on the other side of the link between processors
/// (SYS). `gpus`: PCI addresses in order.
Facts rail_facts(const std::filesystem::path& root, const std::vector<std::string>& gpus,
                 const std::optional<std::vector<Port>>&);

/// Returns gpudirect_rdma: 1 with its provider, a module or the kernel's dma-buf, or 0.
Fact gpudirect_rdma(const std::filesystem::path& root);

}  // namespace shakedown
