// InfiniBand and RoCE ports, read from sysfs, and whether GPUDirect RDMA is available. Reading the ports needs no root
// privileges and no vendor library.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/gpu_health.hpp"
#include "node/fact.hpp"
#include "node/port.hpp"

namespace shakedown {

/// Returns all ports with their roles. Empty if the kernel has no such device; nullopt if /sys cannot be read. `gpus`
/// are PCI addresses. `named` are the rails of a site file; empty without a site file.
std::optional<std::vector<Port>> read_ports(const std::filesystem::path& root, const std::vector<std::string>& gpus,
                                            const std::vector<std::string>& named = {});

/// Returns the ports that are rails.
std::vector<Port> rails_of(const std::optional<std::vector<Port>>&);

/// By port ("mlx5_3/1"): its error counters.
using PortErrors = std::map<std::string, ErrorCounts>;

/// Returns link_downed, link_recoveries, symbol_errors and receive_errors of these ports. Omits counters that cannot be
/// read.
PortErrors port_errors(const std::filesystem::path& root, const std::vector<std::string>& ports);

/// Bytes that a port or an interface has sent and received.
struct PortTraffic {
  double sent = 0, received = 0;
};

/// Returns the traffic of a port ("mlx5_3/1") or of a network interface ("eth0"); nullopt if the kernel does not report
/// it. The counters of a RoCE port have the traffic of RDMA, those of its interface have the rest.
std::optional<PortTraffic> port_traffic(const std::filesystem::path& root, const std::string& port);

/// Returns how much the counters have grown. Omits counters that are not in both arguments.
PortErrors grown(const PortErrors& before, const PortErrors& after);

/// Returns the facts of one port, for display or for programs.
Facts port_facts(const Port&);

/// Returns facts of a host. The facts are only about rails:
/// - ib_ports, ib_ports_down, roce_ports, roce_ports_down, efa_ports: numbers of ports. nics: active rails of any link
///   layer.
/// - ib_rate_gbit, roce_rate_gbit, efa_rate_gbit: rate of the slowest active port. ib_link_downed: sum over the ports.
/// ib_firmware.
/// - roce_mtu: smallest MTU of active ports. roce_gid_index: "3", or the index of each port if they differ.
///   roce_ports_without_v2: number and names.
/// - ports_slow: active ports that are slower than most. ib_ports_init: ports that have a link and wait for a subnet
///   manager. ports_with_errors: ports whose counters show recoveries, lost symbols or damaged packets.
/// - roce_without_dscp, roce_without_ecn: rails whose NIC reports this. NVIDIA's driver package has the files for it;
///   Linux's own driver does not (for the first, see node/flow_control.hpp).
/// - rail_ports: a description of the rails. rail_names: their names, sorted.
Facts network_facts(const std::optional<std::vector<Port>>&);

/// Returns two facts of a host. rails: the port nearest to each GPU ("GPU0 mlx5_0/1 PIX, GPU1 mlx5_3/1 PXB"); if there
/// are enough ports, each is assigned to one GPU. nics_far: GPUs whose port is at another processor (SYS). `gpus` are
/// PCI addresses in order.
Facts rail_facts(const std::filesystem::path& root, const std::vector<std::string>& gpus,
                 const std::optional<std::vector<Port>>&);

/// Returns the fact gpudirect_rdma: 1 with the provider, which is a module or the kernel's dma-buf, or 0.
Fact gpudirect_rdma(const std::filesystem::path& root);

}  // namespace shakedown
