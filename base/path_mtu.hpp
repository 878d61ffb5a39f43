// Finds hosts that small packets reach and large packets do not.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace shakedown {

/// The port of ssh, which answers on almost every host.
constexpr int ssh_port = 22;

/// Returns the hosts that answer small packets only, with the size in bytes of the IP packets that are lost. Large
/// packets are lost if both hosts have a larger MTU than a switch port between them: programs connect and then hang.
/// The size is that of a full TCP segment, which depends on the MTUs of both hosts (the maximum segment size of a
/// connection to `port`). The packets go to a UDP port on which no program listens, and a host that receives one
/// answers "port unreachable" (RFC 1122, 4.1.3.1). Not in the result are hosts that do not accept connections on `port`
/// or do not answer small packets (firewall, no such name), and hosts behind a router that reports a smaller MTU, since
/// TCP adapts to that. Returns after at most about four times `patience`, plus the time of name resolution. Tests at
/// most the first 300 hosts, to stay below the usual limit of 1,024 open files.
std::map<std::string, int> hosts_losing_large_packets(const std::vector<std::string>& hosts,
                                                      std::chrono::milliseconds patience, int port = ssh_port);

}  // namespace shakedown
