#include "node/ports.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
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

/// Returns the address types that the port supports. Unused entries cannot be read.
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

/// Returns the first index in the port's GID table with a RoCE v2 address that is neither empty nor link-local (fe80).
/// NCCL selects such an index automatically since 2.21; earlier versions need it in NCCL_IB_GID_INDEX.
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
  if (port.netdev) port.mtu = number_of(root / "sys/class/net" / *port.netdev / "mtu");
  port.link_downed = number_of(folder / "counters/link_downed");
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

/// Returns the ports that are up and slower than the usual rate of their kind. The usual rate is the most frequent one;
/// of several, the highest.
std::vector<std::string> slow_ports(const std::vector<Port>& ports, bool infiniband) {
  std::map<double, int> count;
  for (const auto& port : ports) {
    if (port.up() && port.infiniband() == infiniband && port.rate_gbit) ++count[*port.rate_gbit];
  }
  if (count.empty()) return {};
  const double usual = std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) {
                         return std::pair(a.second, a.first) < std::pair(b.second, b.first);
                       })->first;
  std::vector<std::string> slow;
  for (const auto& port : ports) {
    if (!port.up() || port.infiniband() != infiniband || !port.rate_gbit || *port.rate_gbit >= usual) continue;
    slow.push_back(port.name() + " has " + std::to_string(std::lround(*port.rate_gbit)) + " Gb/s, others " +
                   std::to_string(std::lround(usual)));
  }
  return slow;
}

}  // namespace

std::optional<std::vector<Port>> read_ports(const Path& root) {
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
  return ports;
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
  facts["link_downed"] = number_fact(port.link_downed);
  return facts;
}

Facts network_facts(const std::optional<std::vector<Port>>& ports) {
  Facts facts{{"ib_ports", {}},        {"ib_ports_down", {}},         {"roce_ports", {}},
              {"roce_ports_down", {}}, {"ib_rate_gbit", {}},          {"ib_link_downed", {}},
              {"ib_firmware", {}},     {"roce_rate_gbit", {}},        {"roce_mtu", {}},
              {"roce_gid_index", {}},  {"roce_ports_without_v2", {}}, {"ports_slow", {}},
              {"ib_ports_init", {}}};
  if (!ports) return facts;
  double infiniband = 0, roce = 0;
  std::vector<std::string> infiniband_down, roce_down, init;
  std::set<std::string> firmware;
  std::optional<double> slowest, downed, slowest_roce;
  std::optional<Fact> mtu;
  std::vector<std::string> without_v2;
  std::map<int, std::vector<std::string>> by_index;
  for (const auto& port : *ports) {
    ++(port.infiniband() ? infiniband : roce);
    if (!port.up()) (port.infiniband() ? infiniband_down : roce_down).push_back(described(port));
    if (port.infiniband() && port.waits()) init.push_back(described(port));
    if (port.firmware) firmware.insert(*port.firmware);
    if (port.infiniband() && port.link_downed) downed = downed.value_or(0) + *port.link_downed;
    if (port.up() && port.infiniband() && port.rate_gbit) slowest = std::min(slowest.value_or(1e9), *port.rate_gbit);
    if (!port.up() || port.infiniband()) continue;
    if (port.rate_gbit) slowest_roce = std::min(slowest_roce.value_or(1e9), *port.rate_gbit);
    if (port.mtu && (!mtu || *port.mtu < *mtu->number)) mtu = number_fact(port.mtu, port.name());
    if (port.gid_index) {
      by_index[*port.gid_index].push_back(port.name());
    } else {
      without_v2.push_back(port.name());
    }
  }
  facts["ib_ports"] = number_fact(infiniband);
  facts["roce_ports"] = number_fact(roce);
  facts["ib_ports_down"] = number_fact(static_cast<double>(infiniband_down.size()), joined(infiniband_down));
  facts["ib_ports_init"] = number_fact(static_cast<double>(init.size()), joined(init));
  facts["roce_ports_down"] = number_fact(static_cast<double>(roce_down.size()), joined(roce_down));
  facts["ib_rate_gbit"] = number_fact(slowest);
  facts["roce_rate_gbit"] = number_fact(slowest_roce);
  if (mtu) facts["roce_mtu"] = *mtu;
  std::vector<std::string> indices;
  for (const auto& [index, names] : by_index) {
    indices.push_back(std::to_string(index) + (by_index.size() > 1 ? " (" + joined(names) + ")" : ""));
  }
  if (!indices.empty()) facts["roce_gid_index"] = text_fact(joined(indices));
  facts["roce_ports_without_v2"] = number_fact(static_cast<double>(without_v2.size()), joined(without_v2));
  auto slow = slow_ports(*ports, true);
  for (auto& port : slow_ports(*ports, false)) slow.push_back(std::move(port));
  facts["ports_slow"] = number_fact(static_cast<double>(slow.size()), joined(slow));
  facts["ib_link_downed"] = number_fact(downed);
  facts["ib_firmware"] = text_fact(ports->empty() ? "no ports" : joined(firmware));
  return facts;
}

Facts rail_facts(const Path& root, const std::vector<std::string>& gpus,
                 const std::optional<std::vector<Port>>& ports) {
  Facts facts{{"rails", {}}, {"nics_far", {}}};
  if (!ports || gpus.empty()) return facts;
  const std::vector<std::string> near{"PIX", "PXB", "PHB", "NODE", "SYS"};  // from nvidia-smi topo, nearest first
  std::vector<const Port*> left;
  for (const auto& port : *ports) {
    if (port.up() && port.pci) left.push_back(&port);
  }
  if (left.empty()) return facts;
  const auto all = left;
  std::vector<std::string> rails, far;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Port* best = nullptr;
    auto rank = near.end();
    for (const auto* port : left.empty() ? all : left) {
      const auto at = std::find(near.begin(), near.end(), pci_distance(root, gpus[i], *port->pci).value_or("SYS"));
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
  // dma-buf needs the driver's open kernel modules and Linux 5.12 or later (NCCL_DMABUF_ENABLE in NCCL's
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
