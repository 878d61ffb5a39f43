#include "base/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "base/environment.hpp"
#include "base/socket.hpp"
#include "base/text.hpp"

namespace shakedown {

std::vector<Interface> own_interfaces() {
  ifaddrs* list = nullptr;
  std::vector<Interface> found;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family || (entry->ifa_flags & IFF_UP) == 0)
        continue;
      const auto same = [entry](const Interface& known) { return known.name == entry->ifa_name; };
      const auto address = number_of(entry->ifa_addr);
      if (address.starts_with("fe80:") || std::any_of(found.begin(), found.end(), same)) continue;
      found.push_back({entry->ifa_name, address});
    }
  }
  return found;
}

std::string interface_list(const std::vector<Interface>& interfaces, const std::string& except) {
  std::vector<std::string> words;
  for (const auto& interface : interfaces) {
    if (interface.name != except && interface.name != "lo") words.push_back(interface.name + " " + interface.address);
  }
  return joined(words, ", ");
}

std::string interfaces_of_host(const std::string& host, const std::vector<Interface>& interfaces,
                               const std::string& chosen) {
  const auto list = interface_list(interfaces);
  return host + (list.empty() ? " has no interface that is up" : " has the interfaces " + list) +
         (chosen.empty() ? "" : ", of which " + chosen + " is chosen");
}

std::string interfaces_of_host(const std::string& host) {
  return interfaces_of_host(host, own_interfaces(), process_environment()("SHAKEDOWN_INTERFACE").value_or(""));
}

}  // namespace shakedown
