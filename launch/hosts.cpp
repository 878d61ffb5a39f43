#include "launch/hosts.hpp"

#include <algorithm>

namespace shakedown {

std::vector<HostWithSlots> with_slots(const std::vector<ListedHost>& listed) {
  std::vector<HostWithSlots> hosts;
  for (const ListedHost& host : listed) {
    const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.name == host.name; });
    if (known == hosts.end()) {
      hosts.push_back({host.name, host.slots.value_or(1)});
    } else {
      known->slots += host.slots.value_or(1);
    }
  }
  return hosts;
}

bool is_one_of(const std::string& host, const std::vector<std::string>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const auto& other) { return same_host(host, other); });
}

std::vector<std::string> hosts_without(std::vector<std::string> hosts, const std::vector<std::string>& others) {
  std::erase_if(hosts, [&](const auto& host) { return is_one_of(host, others); });
  return hosts;
}

}  // namespace shakedown
