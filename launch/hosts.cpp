#include "launch/hosts.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/host_list.hpp"

namespace shakedown {

std::vector<ListedHost> hosts_of_file(std::string_view text) {
  std::vector<ListedHost> hosts;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    ListedHost host;
    if (!(words >> host.name)) continue;
    // Not of an IPv6 address, which has several.
    if (const auto colon = host.name.find(':'); colon != std::string::npos && colon == host.name.rfind(':')) {
      host.slots = std::max(1, std::atoi(host.name.c_str() + colon + 1));
      host.name.resize(colon);
    }
    for (std::string word; words >> word;) {
      if (word.rfind("slots=", 0) == 0) host.slots = std::max(1, std::atoi(word.c_str() + 6));
    }
    const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.name == host.name; });
    known == hosts.end() ? hosts.push_back(host) : void(known->slots += host.slots);
  }
  return hosts;
}

bool is_one_of(const std::string& host, const std::vector<std::string>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const auto& other) { return same_host(host, other); });
}

}  // namespace shakedown
