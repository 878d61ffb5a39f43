#include "node/port_roles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "base/files.hpp"
#include "base/timed_call.hpp"
#include "node/topology.hpp"

namespace shakedown {
namespace {

using Path = std::filesystem::path;
using Ports = std::vector<Port*>;

void set(Port& port, PortRole role, std::string reason) {
  port.role = role;
  port.role_reason = std::move(reason);
}

/// Returns the interfaces of default routes. If one is a bond, also returns the interfaces that it combines.
std::set<std::string> default_interfaces(const Path& root) {
  std::set<std::string> found;
  for (const auto& line : lines_of(root / "proc/net/route").value_or(std::vector<std::string>{})) {
    std::istringstream words(line);
    std::string interface, destination;
    if (!(words >> interface >> destination) || destination != "00000000") continue;
    found.insert(interface);
    for (const auto& below : names_in(root / "sys/class/net" / interface).value_or(std::vector<std::string>{})) {
      if (below.starts_with("lower_")) found.insert(below.substr(6));
    }
  }
  return found;
}

/// True if the vital product data (VPD) of the device names it as a bridge to NVSwitches. Only root can read the VPD.
bool is_switch_bridge(const Path& device) {
  return content_of(device / "vpd").value_or("").find("SW_MNG") != std::string::npos;
}

/// True if the host may have bridges to NVSwitches, because it has more InfiniBand ports than GPUs. The number of ports
/// is tested before the VPD, because reading a VPD takes about 100 ms.
bool may_have_bridges(const std::vector<std::string>& gpus, const std::vector<Port>& ports) {
  return static_cast<std::size_t>(std::count_if(ports.begin(), ports.end(),
                                                [](const Port& port) { return port.infiniband(); })) > gpus.size();
}

void assign_named_roles(const Path& root, const std::vector<std::string>& gpus, std::vector<Port>& ports) {
  const auto defaults = default_interfaces(root);
  const bool reads_vpd = may_have_bridges(gpus, ports);
  for (auto& port : ports) {
    const auto device = root / "sys/class/infiniband" / port.device / "device";
    const auto interfaces = names_in(device / "net").value_or(std::vector<std::string>{});
    const auto route = std::find_if(interfaces.begin(), interfaces.end(),
                                    [&](const std::string& interface) { return defaults.contains(interface); });
    if (is_visible(device / "physfn")) {
      set(port, PortRole::virtual_function, "sysfs names its physical function");
    } else if (reads_vpd && port.infiniband() && is_switch_bridge(device)) {
      set(port, PortRole::switch_bridge, "its VPD has SW_MNG");
    } else if (route != interfaces.end()) {
      set(port, PortRole::front_end, *route + " has the default route");
    } else if (port.netdev && defaults.contains(*port.netdev)) {
      set(port, PortRole::front_end, *port.netdev + " has the default route");
    }
  }
}

/// Returns the PCI address without the function number, which is the same for all ports of a NIC. If there is none,
/// returns the device.
std::string card_of(const Port& port) { return port.pci ? port.pci->substr(0, port.pci->rfind('.')) : port.device; }

void assign_unused(std::vector<Port>& ports) {
  std::map<std::string, int> linked;  // by NIC: the number of its ports that are up
  for (const auto& port : ports) linked[card_of(port)] += port.linked() ? 1 : 0;
  const bool is_any_full = std::any_of(linked.begin(), linked.end(), [](const auto& card) { return card.second > 1; });
  for (auto& port : ports) {
    if (port.role != PortRole::rail || port.linked() || linked[card_of(port)] == 0 || is_any_full) continue;
    set(port, PortRole::unused, "each NIC has one port that is connected");
  }
}

void take_rails_of_site(const std::vector<std::string>& named, std::vector<Port>& ports) {
  for (auto& port : ports) {
    if (std::find(named.begin(), named.end(), port.name()) != named.end()) {
      set(port, PortRole::rail, "the site file names it");
    } else if (port.role == PortRole::rail) {
      set(port, PortRole::other_network, "the site file names other rails");
    }
  }
}

Ports rails_among(std::vector<Port>& ports) {
  Ports rails;
  for (auto& port : ports) {
    if (port.role == PortRole::rail) rails.push_back(&port);
  }
  return rails;
}

double rate_of(const Port& port) { return port.linked() ? port.rate_gbit.value_or(0) : 0; }

/// Keeps the ports of the link layer with the highest total rate. The rate of a port that is down is unknown, so it is
/// assumed to be the highest rate of its layer, or else of the host.
void keep_one_layer(Ports& rails) {
  double highest = 1;
  std::map<std::string, double> highest_of, total;
  for (const auto* port : rails) {
    highest = std::max(highest, rate_of(*port));
    auto& layer = highest_of[port->link_layer.value_or("")];
    layer = std::max(layer, rate_of(*port));
  }
  for (const auto* port : rails) {
    const auto layer = port->link_layer.value_or("");
    total[layer] += port->linked() ? rate_of(*port) : highest_of[layer] > 0 ? highest_of[layer] : highest;
  }
  if (total.size() < 2) return;
  const auto kept = std::max_element(total.begin(), total.end(), [](const auto& a, const auto& b) {
                      return a.second < b.second;
                    })->first;
  std::erase_if(rails, [&](Port* port) {
    if (port->link_layer.value_or("") == kept) return false;
    set(*port, PortRole::other_network, "the rails are " + (kept == "Unknown" ? "of another kind" : kept));
    return true;
  });
}

/// Keeps only the ports that share a PCIe switch with a GPU, if there are enough of them to be the rails.
void keep_near(const Path& root, const std::vector<std::string>& gpus, Ports& rails) {
  const auto is_near = [&](const Port* port) {
    return port->pci && std::any_of(gpus.begin(), gpus.end(), [&](const std::string& gpu) {
             const auto distance = pci_distance(root, gpu, *port->pci);
             return distance == "PIX" || distance == "PXB";
           });
  };
  std::set<const Port*> near;
  std::copy_if(rails.begin(), rails.end(), std::inserter(near, near.end()), is_near);
  if (near.empty() || 2 * near.size() < gpus.size()) return;
  std::erase_if(rails, [&](Port* port) {
    if (near.contains(port)) return false;
    set(*port, PortRole::other_network, "the rails are below a PCIe switch with a GPU");
    return true;
  });
}

/// Decides about ports that are down or have another rate than most ports: they are either rails with a fault, or not
/// rails.
void keep_one_rate(std::size_t gpus, Ports& rails) {
  std::map<double, std::size_t> count;
  for (const auto* port : rails) {
    if (port->linked()) ++count[rate_of(*port)];
  }
  if (count.empty()) return;
  const auto [usual, alike] = *std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first * static_cast<double>(a.second), a.first) <
           std::pair(b.first * static_cast<double>(b.second), b.first);
  });
  const bool is_whole = std::has_single_bit(alike) && alike >= std::max<std::size_t>(gpus, 2);
  const bool is_completed = std::has_single_bit(rails.size());
  if (!is_whole && (is_completed || !std::has_single_bit(alike))) return;
  std::erase_if(rails, [&, rate = usual, n = alike](Port* port) {
    if (port->linked() && rate_of(*port) == rate) return false;
    set(*port, PortRole::other_network, fmt::format("there are {} rails of {:g} Gb/s without it", n, rate));
    return true;
  });
}

}  // namespace

std::string_view name(PortRole role) {
  switch (role) {
    case PortRole::rail: return "rail";
    case PortRole::other_network: return "other network";
    case PortRole::front_end: return "front end";
    case PortRole::virtual_function: return "virtual function";
    case PortRole::switch_bridge: return "switch bridge";
    case PortRole::unused: return "unused port";
  }
  return "";
}

void assign_roles(const Path& root, const std::vector<std::string>& gpus, const std::vector<std::string>& named,
                  std::vector<Port>& ports) {
  assign_named_roles(root, gpus, ports);
  if (!named.empty()) return take_rails_of_site(named, ports);
  assign_unused(ports);
  auto rails = rails_among(ports);
  keep_one_layer(rails);
  keep_near(root, gpus, rails);
  keep_one_rate(gpus.size(), rails);
}

}  // namespace shakedown
