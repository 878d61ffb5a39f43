// Priority flow control (PFC) of RoCE ports: a switch pauses a sender instead of dropping its packets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "node/fact.hpp"

namespace shakedown {

/// Asks dcb (iproute2) for the settings of the Ethernet rails. Returns its JSON by port ("mlx5_0/1"), empty where it
/// cannot tell. `ports`: the facts of all ports (node/ports.hpp).
std::map<std::string, std::string> read_flow_control(const std::vector<Facts>& ports,
                                                     const std::vector<std::string>& rails);

/// Returns roce_pfc: the priorities that are lossless ("3", or by port if they differ), and roce_without_pfc: rails
/// without one. Unknown if no port tells.
Facts flow_control_facts(const std::map<std::string, std::string>& settings);

}  // namespace shakedown
