// Hosts and their slots, counted as mpirun counts them.
#pragma once

#include <string>
#include <vector>

#include "base/host_list.hpp"

namespace shakedown {

/// A host and the number of ranks that mpirun may start on it.
struct HostWithSlots {
  std::string name;
  int slots = 1;
};

/// Returns each host once, in the order of the list, with the sum of its slots. An entry without a number is one slot,
/// as in mpirun.
std::vector<HostWithSlots> with_slots(const std::vector<ListedHost>&);

/// True if `hosts` contains this name.
bool is_one_of(const std::string& host, const std::vector<std::string>& hosts);

/// Returns the hosts that are not among `others`.
std::vector<std::string> hosts_without(std::vector<std::string> hosts, const std::vector<std::string>& others);

}  // namespace shakedown
