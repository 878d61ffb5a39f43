// The network interfaces of this host.
#pragma once

#include <string>
#include <vector>

namespace shakedown {

struct Interface {
  std::string name, address;  // such as "eth0", "10.0.0.1"
};

/// Returns the interfaces of this host that are up, including loopback, in system order. Each has its first IPv4
/// address, or its first IPv6 address if it has no IPv4 address.
std::vector<Interface> own_interfaces();

/// Returns "eth0 10.0.0.1, docker0 172.17.0.1" without loopback and without the interface `except`.
std::string interface_list(const std::vector<Interface>&, const std::string& except = "");

/// Returns "node7 has the interfaces eth0 10.0.0.1, docker0 172.17.0.1" for a message about hosts that do not find each
/// other, with the interface that the user has chosen (SHAKEDOWN_INTERFACE).
std::string interfaces_of_host(const std::string& host, const std::vector<Interface>&, const std::string& chosen);
/// Returns it for this host, with the name `host`.
std::string interfaces_of_host(const std::string& host);

}  // namespace shakedown
