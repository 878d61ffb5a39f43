#include "node/ports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "node/port_roles.hpp"
#include "node/telemetry.hpp"
#include "node/topology.hpp"

namespace shakedown {

namespace {

using Path = std::filesystem::path;

/// Returns the text after the colon: "4: ACTIVE" gives ACTIVE.
std::optional<std::string> behind_colon(const std::optional<std::string>& line) {
  if (!line) return std::nullopt;
  const auto colon = line->find(": ");
  return colon == std::string::npos ? *line : line->substr(colon + 2);
}

/// Returns the types of addresses in the GID table of the port. Unused entries cannot be read.
std::optional<std::string> gid_types(const Path& port) {
  const auto folder = port / "gid_attrs/types";
  const auto names = names_in(folder);
  if (!names) return std::nullopt;
  std::set<std::string> types;
  for (const auto& name : *names) {
    if (const auto type = line_of(folder / name)) types.insert(*type);
  }
  return types.empty() ? std::nullopt : std::optional(joined(types));
}

/// Returns the first index in the port's GID table that has a RoCE v2 address which is neither empty nor link-local
/// (fe80). NCCL chooses this index itself since version 2.21; earlier versions need it in NCCL_IB_GID_INDEX.
std::optional<int> routable_v2(const Path& port) {
  std::vector<int> indices;
  for (const auto& name : names_in(port / "gid_attrs/types").value_or(std::vector<std::string>{})) {
    indices.push_back(std::atoi(name.c_str()));
  }
  std::sort(indices.begin(), indices.end());
  for (const int index : indices) {
    const auto at = std::to_string(index);
    if (line_of(port / "gid_attrs/types" / at) != "RoCE v2") continue;
    const auto gid = line_of(port / "gids" / at).value_or("");
    if (gid.find_first_not_of("0:") != std::string::npos && gid.rfind("fe80", 0) != 0) return index;
  }
  return std::nullopt;
}

/// An error counter of a port, and its file in sysfs.
struct Counter {
  const char *name, *file;
  std::optional<double> Port::*value;
};
constexpr std::array error_counters{Counter{"link_downed", "link_downed", &Port::link_downed},
                                    Counter{"link_recoveries", "link_error_recovery", &Port::link_recoveries},
                                    Counter{"symbol_errors", "symbol_error", &Port::symbol_errors},
                                    Counter{"receive_errors", "port_rcv_errors", &Port::receive_errors}};

/// Returns the folder of the counters of a port ("mlx5_3/1").
Path counters_of(const Path& root, const std::string& port) {
  const auto slash = port.find('/');
  return root / "sys/class/infiniband" / port.substr(0, slash) / "ports" / port.substr(slash + 1) / "counters";
}

/// Reads the settings of an Ethernet interface on which RoCE depends.
void read_congestion_control(const Path& interface, Port& port) {
  port.mtu = number_of(interface / "mtu");
  port.trust = line_of(interface / "qos/trust");
  for (const auto* const point : {"roce_np", "roce_rp"}) {  // notification point (receiver) and reaction point (sender)
    const auto folder = interface / "ecn" / point / "enable";
    bool is_on = false;
    const auto priorities = names_in(folder);
    if (!priorities) return;
    for (const auto& priority : *priorities) is_on = is_on || number_of(folder / priority) == 1;
    port.ecn = port.ecn.value_or(true) && is_on;
  }
}

Port read_port(const Path& root, const Path& device, int number) {
  const auto folder = device / "ports" / std::to_string(number);
  Port port;
  port.device = device.filename();
  port.number = number;
  port.state = behind_colon(line_of(folder / "state"));
  port.physical_state = behind_colon(line_of(folder / "phys_state"));
  port.link_layer = line_of(folder / "link_layer");
  port.rate_gbit = number_of(folder / "rate");
  port.gid_types = gid_types(folder);
  port.gid_index = routable_v2(folder);
  if (port.gid_index) port.netdev = line_of(folder / "gid_attrs/ndevs" / std::to_string(*port.gid_index));
  if (port.netdev) read_congestion_control(root / "sys/class/net" / *port.netdev, port);
  for (const auto& counter : error_counters) port.*counter.value = number_of(folder / "counters" / counter.file);
  port.firmware = line_of(device / "fw_ver");
  if (const auto numa = number_of(device / "device/numa_node"); numa && *numa >= 0) port.numa = static_cast<int>(*numa);
  std::error_code error;
  const auto bus = std::filesystem::canonical(device / "device", error);
  if (!error) port.pci = bus.filename();
  return port;
}

std::string described(const Port& port) {
  return port.name() + " is " + port.state.value_or("unreadable") +
         (port.physical_state ? " (" + *port.physical_state + ")" : "");
}

/// Returns the rails that are up and slower than the most frequent rate. If several rates are equally frequent,
/// compares with the highest of them.
std::vector<std::string> slow_ports(const std::vector<Port>& rails) {
  std::map<double, int> count;
  for (const auto& port : rails) {
    if (port.up() && port.rate_gbit) ++count[*port.rate_gbit];
  }
  if (count.empty()) return {};
  const double usual = std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) {
                         return std::pair(a.second, a.first) < std::pair(b.second, b.first);
                       })->first;
  std::vector<std::string> slow;
  for (const auto& port : rails) {
    if (!port.up() || !port.rate_gbit || *port.rate_gbit >= usual) continue;
    slow.push_back(fmt::format("{} has {:g} Gb/s, others {:g}", port.name(), *port.rate_gbit, usual));
  }
  return slow;
}

/// Returns a text such as "mlx5_3/1: 255 recoveries, 183,422 symbol errors"; empty if all counters are 0.
std::string errors_of(const Port& port) {
  std::vector<std::string> parts;
  for (const auto& [count, what] : {std::pair{port.link_recoveries, "link recoveries"},
                                    {port.symbol_errors, "symbol errors"},
                                    {port.receive_errors, "damaged packets received"}}) {
    if (count.value_or(0) > 0) parts.push_back(fmt::format("{:.0f} {}", *count, what));
  }
  return parts.empty() ? "" : port.name() + ": " + joined(parts);
}

/// Describes the ports that are not active rails: "mlx5_1/1: other network, 200 Gb/s, ...; mlx5_3/1 is DOWN".
std::string not_counted(const std::vector<Port>& ports) {
  std::vector<std::string> parts;
  for (const auto& port : ports) {
    const auto rate = port.linked() && port.rate_gbit ? fmt::format(", {:g} Gb/s", *port.rate_gbit) : "";
    if (port.role != PortRole::rail) {
      parts.push_back(fmt::format("{}: {}{}, {}", port.name(), name(port.role), rate, port.role_reason));
    } else if (!port.up()) {
      parts.push_back(described(port));
    }
  }
  return joined(parts, "; ");
}

/// Describes the rails: "8 rails of 400 Gb/s: mlx5_0/1, ...; 1 rail that is not active: mlx5_3/1".
std::string rails_in_words(const std::vector<Port>& rails) {
  std::map<std::string, std::vector<std::string>> by_rate;
  for (const auto& port : rails) {
    const auto rate = port.rate_gbit ? fmt::format("of {:g} Gb/s", *port.rate_gbit) : "of unknown rate";
    by_rate[port.up() ? rate : "that is not active"].push_back(port.name());
  }
  std::vector<std::string> all;
  for (const auto& [rate, names] : by_rate)
    all.push_back(plural(names.size(), "rail") + " " + rate + ": " + joined(names));
  return all.empty() ? "no rails" : joined(all, "; ");
}

}  // namespace

std::optional<std::vector<Port>> read_ports(const Path& root, const std::vector<std::string>& gpus,
                                            const std::vector<std::string>& named) {
  const TimedCall call("list", root / "sys/class");
  std::error_code error;
  if (std::filesystem::directory_iterator(root / "sys/class", error); error) return std::nullopt;
  const auto devices = root / "sys/class/infiniband";
  std::vector<Port> ports;
  for (const auto& device : names_in(devices).value_or(std::vector<std::string>{})) {
    for (const auto& number : names_in(devices / device / "ports").value_or(std::vector<std::string>{})) {
      ports.push_back(read_port(root, devices / device, std::atoi(number.c_str())));
    }
  }
  assign_roles(root, gpus, named, ports);
  return ports;
}

std::vector<Port> rails_of(const std::optional<std::vector<Port>>& ports) {
  std::vector<Port> rails;
  for (const auto& port : ports.value_or(std::vector<Port>{})) {
    if (port.role == PortRole::rail) rails.push_back(port);
  }
  return rails;
}

PortErrors port_errors(const Path& root, const std::vector<std::string>& ports) {
  PortErrors errors;
  for (const auto& port : ports) {
    for (const auto& counter : error_counters) {
      if (const auto count = number_of(counters_of(root, port) / counter.file)) {
        errors[port][counter.name] = static_cast<std::uint64_t>(*count);
      }
    }
  }
  return errors;
}

std::optional<PortTraffic> port_traffic(const Path& root, const std::string& port) {
  if (port.find('/') == std::string::npos) {
    const auto statistics = root / "sys/class/net" / port / "statistics";
    const auto sent = number_of(statistics / "tx_bytes"), received = number_of(statistics / "rx_bytes");
    return sent && received ? std::optional(PortTraffic{*sent, *received}) : std::nullopt;
  }
  constexpr double bytes = 4;  // InfiniBand counts words of 4 bytes (IBTA, PortCountersExtended)
  const auto counters = counters_of(root, port);
  const auto sent = number_of(counters / "port_xmit_data"), received = number_of(counters / "port_rcv_data");
  return sent && received ? std::optional(PortTraffic{*sent * bytes, *received * bytes}) : std::nullopt;
}

PortErrors grown(const PortErrors& before, const PortErrors& after) {
  PortErrors more;
  for (const auto& [port, errors] : after) {
    const auto earlier = before.find(port);
    if (earlier == before.end()) continue;
    if (auto counts = grown(earlier->second, errors); !counts.empty()) more.emplace(port, std::move(counts));
  }
  return more;
}

Facts port_facts(const Port& port) {
  Facts facts;
  facts["port"] = text_fact(port.name());
  facts["state"] = text_fact(port.state);
  facts["physical_state"] = text_fact(port.physical_state);
  facts["link_layer"] = text_fact(port.link_layer);
  facts["rate_gbit"] = number_fact(port.rate_gbit);
  facts["gid_index"] = number_fact(port.gid_index);
  facts["netdev"] = text_fact(port.netdev);
  facts["mtu"] = number_fact(port.mtu);
  facts["gid_types"] = text_fact(port.gid_types);
  facts["firmware"] = text_fact(port.firmware);
  facts["pci"] = text_fact(port.pci);
  facts["numa"] = number_fact(port.numa);
  for (const auto& counter : error_counters) facts[counter.name] = number_fact(port.*counter.value);
  facts["role"] = text_fact(std::string(name(port.role)) + (port.role_reason.empty() ? "" : ": " + port.role_reason));
  return facts;
}

namespace {

void add_infiniband(const std::vector<Port>& rails, Facts& facts) {
  double count = 0;
  std::vector<std::string> down, init;
  std::optional<double> slowest, downed;
  for (const auto& port : rails) {
    if (!port.infiniband()) continue;
    ++count;
    if (!port.up()) down.push_back(described(port));
    if (port.waits()) init.push_back(described(port));
    if (port.link_downed) downed = downed.value_or(0) + *port.link_downed;
    if (port.up() && port.rate_gbit) slowest = std::min(slowest.value_or(1e9), *port.rate_gbit);
  }
  facts["ib_ports"] = number_fact(count);
  facts["ib_ports_down"] = number_fact(static_cast<double>(down.size()), joined(down));
  facts["ib_ports_init"] = number_fact(static_cast<double>(init.size()), joined(init));
  facts["ib_rate_gbit"] = number_fact(slowest);
  facts["ib_link_downed"] = number_fact(downed);
}

/// Adds the rails that are neither InfiniBand nor Ethernet: EFA.
void add_efa(const std::vector<Port>& rails, Facts& facts) {
  double count = 0;
  std::optional<double> slowest;
  for (const auto& port : rails) {
    if (port.infiniband() || port.ethernet()) continue;
    ++count;
    if (port.up() && port.rate_gbit) slowest = std::min(slowest.value_or(1e9), *port.rate_gbit);
  }
  facts["efa_ports"] = number_fact(count);
  facts["efa_rate_gbit"] = number_fact(slowest);
}

void add_roce(const std::vector<Port>& rails, Facts& facts) {
  double count = 0;
  std::vector<std::string> down, without_v2;
  std::optional<double> slowest;
  std::optional<Fact> mtu;
  std::map<int, std::vector<std::string>> by_index;
  for (const auto& port : rails) {
    if (!port.ethernet()) continue;
    ++count;
    if (!port.up()) {
      down.push_back(described(port));
      continue;
    }
    if (port.rate_gbit) slowest = std::min(slowest.value_or(1e9), *port.rate_gbit);
    if (port.mtu && (!mtu || *port.mtu < *mtu->number)) mtu = number_fact(port.mtu, port.name());
    if (port.gid_index) {
      by_index[*port.gid_index].push_back(port.name());
    } else {
      without_v2.push_back(port.name());
    }
  }
  facts["roce_ports"] = number_fact(count);
  facts["roce_ports_down"] = number_fact(static_cast<double>(down.size()), joined(down));
  facts["roce_rate_gbit"] = number_fact(slowest);
  facts["roce_mtu"] = mtu.value_or(Fact{});
  std::vector<std::string> indices;
  for (const auto& [index, names] : by_index) {
    indices.push_back(std::to_string(index) + (by_index.size() > 1 ? " (" + joined(names) + ")" : ""));
  }
  facts["roce_gid_index"] = indices.empty() ? Fact{} : text_fact(joined(indices));
  facts["roce_ports_without_v2"] = number_fact(static_cast<double>(without_v2.size()), joined(without_v2));
  std::optional<std::vector<std::string>> without_dscp, without_ecn;
  const auto note = [](auto& names, const Port& port, bool is_without) {
    if (!names) names.emplace();
    if (is_without) names->push_back(port.name());
  };
  for (const auto& port : rails) {
    if (port.ethernet() && port.trust) note(without_dscp, port, *port.trust != "dscp");
    if (port.ethernet() && port.ecn) note(without_ecn, port, !*port.ecn);
  }
  for (const auto& [name, names] : {std::pair{"roce_without_dscp", without_dscp}, {"roce_without_ecn", without_ecn}}) {
    facts[name] = names ? number_fact(static_cast<double>(names->size()), joined(*names)) : Fact{};
  }
}

}  // namespace

Facts network_facts(const std::optional<std::vector<Port>>& ports) {
  if (!ports) {
    auto unknown = network_facts(std::vector<Port>{});
    for (auto& [name, fact] : unknown) fact = {};
    return unknown;
  }
  Facts facts;
  const auto rails = rails_of(ports);
  add_infiniband(rails, facts);
  add_roce(rails, facts);
  add_efa(rails, facts);
  double up = 0;
  std::set<std::string> firmware;
  std::vector<std::string> with_errors;
  for (const auto& port : rails) {
    up += port.up() ? 1 : 0;
    if (port.firmware) firmware.insert(*port.firmware);
    if (const auto errors = errors_of(port); !errors.empty()) with_errors.push_back(errors);
  }
  const auto slow = slow_ports(rails);
  facts["ports_slow"] = number_fact(static_cast<double>(slow.size()), joined(slow));
  facts["ports_with_errors"] = number_fact(static_cast<double>(with_errors.size()), joined(with_errors, "; "));
  facts["ib_firmware"] = text_fact(ports->empty() ? "no ports" : joined(firmware));
  facts["nics"] = number_fact(up, not_counted(*ports));
  facts["rail_ports"] = text_fact(rails_in_words(rails));
  std::set<std::string> names;
  for (const auto& port : rails) names.insert(port.name());
  facts["rail_names"] = text_fact(names.empty() ? "none" : joined(names));
  return facts;
}

Facts rail_facts(const Path& root, const std::vector<std::string>& gpus,
                 const std::optional<std::vector<Port>>& ports) {
  Facts facts{{"rails", {}}, {"nics_far", {}}};
  if (!ports || gpus.empty()) return facts;
  // The distances of nvidia-smi topo, from near to far. "?" is for a guest that does not know its NUMA nodes.
  const std::vector<std::string> near{"PIX", "PXB", "PHB", "NODE", "SYS", "?"};
  std::vector<const Port*> left;
  for (const auto& port : *ports) {
    if (port.up() && port.pci && port.role == PortRole::rail) left.push_back(&port);
  }
  if (left.empty()) return facts;
  const auto all = left;
  std::vector<std::string> rails, far;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Port* best = nullptr;
    auto rank = near.end();
    for (const auto* port : left.empty() ? all : left) {
      const auto at = std::find(near.begin(), near.end(), pci_distance(root, gpus[i], *port->pci).value_or("?"));
      if (best != nullptr && at >= rank) continue;
      best = port;
      rank = at;
    }
    std::erase(left, best);
    rails.push_back("GPU" + std::to_string(i) + " " + best->name() + " " + *rank);
    if (*rank == "SYS") far.push_back(rails.back());
  }
  facts["rails"] = text_fact(joined(rails));
  facts["nics_far"] = number_fact(static_cast<double>(far.size()), joined(far));
  return facts;
}

Fact gpudirect_rdma(const Path& root) {
  if (!is_visible(root / "sys/module")) return {};
  for (const auto* module : {"nvidia_peermem", "nv_peer_mem"}) {
    if (is_visible(root / "sys/module" / module)) return number_fact(1, module);
  }
  // dma-buf needs the open kernel modules of the driver and Linux 5.12 or later (NCCL_DMABUF_ENABLE in NCCL's
  // documentation).
  const auto flavour = line_of(root / "proc/driver/nvidia/version").value_or("");
  const auto kernel = line_of(root / "proc/sys/kernel/osrelease").value_or("");
  int major = 0, minor = 0;
  if (std::sscanf(kernel.c_str(), "%d.%d", &major, &minor) == 2 && std::pair(major, minor) >= std::pair(5, 12) &&
      flavour.find("Open Kernel Module") != std::string::npos) {
    return number_fact(1, "dma-buf: open kernel module, Linux " + kernel);
  }
  return number_fact(0, "neither nvidia_peermem nor nv_peer_mem is loaded (modprobe nvidia_peermem), and no dma-buf");
}

}  // namespace shakedown
