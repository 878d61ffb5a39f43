// Hosts as MPI writes them into a file, and whether two names are those of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// A host of a host file: as many slots as it says, or as often as it is named.
struct ListedHost {
  std::string name;
  int slots = 1;
};

/// Of lines "host", "host slots=8" or "host:8"; # starts a comment. Each host once, in their order.
std::vector<ListedHost> hosts_of_file(std::string_view text);

/// Returns whether one of the hosts has this name.
bool is_one_of(const std::string& host, const std::vector<std::string>& hosts);

}  // namespace shakedown
