// A port of an InfiniBand, RoCE or EFA NIC. Rails are the ports that carry data between GPUs of different hosts. Only
// rails are counted, compared and expected to be up.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shakedown {

enum class PortRole {
  rail,
  other_network,     // a port for storage or management
  front_end,         // the port of the default route
  virtual_function,  // a virtual function that belongs to a guest or a container
  switch_bridge,     // a port that manages the NVSwitches of an HGX B200 or B300
  unused             // a port that has no cable on this NIC and on all other NICs of the host
};

/// Returns "rail", "other network", "front end", "virtual function", "switch bridge" or "unused port".
std::string_view name(PortRole);

struct Port {
  std::string device;  // such as "mlx5_0"
  int number = 1;
  std::optional<std::string> state;           // "ACTIVE", "DOWN", "INIT"
  std::optional<std::string> physical_state;  // such as "LinkUp", "Polling", "Disabled"
  std::optional<std::string> link_layer;      // "InfiniBand" or "Ethernet"
  std::optional<double> rate_gbit;            // "400 Gb/sec (4X NDR)" is 400
  std::optional<std::string> gid_types;       // "IB/RoCE v1, RoCE v2"
  /// Index of its first routable RoCE v2 address: IPv4, or IPv6 that is not link-local.
  std::optional<int> gid_index;
  std::optional<std::string> netdev;  // the interface of that address, such as "eth2"
  std::optional<double> mtu;          // MTU of that interface; sysfs does not report it for InfiniBand
  /// Trust setting of that interface: "dscp" or "pcp" decides the priority of a packet.
  std::optional<std::string> trust;
  /// True if congestion marks (ECN) of switches slow the sender down, on at least one priority.
  std::optional<bool> ecn;
  std::optional<std::string> firmware, pci;
  std::optional<int> numa;
  // Numbers of events since the counters began: the link went down, the link recovered by itself, a symbol was lost, a
  // damaged packet was received.
  std::optional<double> link_downed, link_recoveries, symbol_errors, receive_errors;
  PortRole role = PortRole::rail;
  std::string role_reason = {};

  std::string name() const { return device + "/" + std::to_string(number); }
  bool up() const { return state == "ACTIVE"; }
  bool waits() const { return state == "INIT" || state == "ARMED"; }  // True if the port waits for a subnet manager.
  bool linked() const { return up() || waits(); }
  bool infiniband() const { return link_layer == "InfiniBand"; }
  bool ethernet() const { return link_layer == "Ethernet"; }  // False for EFA, whose link layer is "Unknown".
};

}  // namespace shakedown
