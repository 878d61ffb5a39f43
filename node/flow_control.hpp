// How RoCE ports treat priorities: priority flow control (PFC), by which a switch pauses a sender instead of dropping
// its packets, and the trust mode, by which the NIC finds the priority of a packet.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "node/fact.hpp"

namespace shakedown {

/// The tables of the kernel for one port, in the JSON of dcb (iproute2). A table that dcb cannot read is empty.
struct PriorityTables {
  std::string pfc = {}, app = {};
  /// True if the driver trusts DSCP if and only if the table has an entry for DSCP, as the driver of NVIDIA's NICs does
  /// (mlx5, en_dcbnl.c).
  bool trusts_by_table = false;
};

/// Asks dcb for the tables of the Ethernet rails, by port ("mlx5_0/1"). `ports`: the facts of all ports
/// (node/ports.hpp).
std::map<std::string, PriorityTables> read_flow_control(const std::filesystem::path& root,
                                                        const std::vector<Facts>& ports,
                                                        const std::vector<std::string>& rails);

/// Returns roce_pfc: the priorities that are lossless ("3", or by port if they differ), roce_without_pfc: rails without
/// a lossless priority, and roce_without_dscp: rails that do not trust DSCP. Unknown if no port reports it.
Facts flow_control_facts(const std::map<std::string, PriorityTables>&);

}  // namespace shakedown
