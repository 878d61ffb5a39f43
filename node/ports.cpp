#include "node/ports.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>

#include "base/files.hpp"
#include "base/text.hpp"

namespace shakedown {

namespace {

using Path = std::filesystem::path;

/// "4: ACTIVE" is ACTIVE.
std::optional<std::string> behind_colon(const std::optional<std::string>& line) {
  if (!line) return std::nullopt;
  const auto colon = line->find(": ");
  return colon == std::string::npos ? *line : line->substr(colon + 2);
}

/// The kinds of address that the port offers. Entries that are not in use cannot be read.
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

Port read_port(const Path& device, int number) {
  const auto folder = device / "ports" / std::to_string(number);
  Port port;
  port.device = device.filename();
  port.number = number;
  port.state = behind_colon(line_of(folder / "state"));
  port.physical_state = behind_colon(line_of(folder / "phys_state"));
  port.link_layer = line_of(folder / "link_layer");
  port.rate_gbit = number_of(folder / "rate");
  port.gid_types = gid_types(folder);
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

}  // namespace

std::optional<std::vector<Port>> read_ports(const Path& root) {
  std::error_code error;
  if (std::filesystem::directory_iterator(root / "sys/class", error); error) return std::nullopt;
  const auto devices = root / "sys/class/infiniband";
  std::vector<Port> ports;
  for (const auto& device : names_in(devices).value_or(std::vector<std::string>{})) {
    for (const auto& number : names_in(devices / device / "ports").value_or(std::vector<std::string>{})) {
      ports.push_back(read_port(devices / device, std::atoi(number.c_str())));
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
  facts["gid_types"] = text_fact(port.gid_types);
  facts["firmware"] = text_fact(port.firmware);
  facts["pci"] = text_fact(port.pci);
  facts["numa"] = number_fact(port.numa);
  facts["link_downed"] = number_fact(port.link_downed);
  return facts;
}

Facts network_facts(const std::optional<std::vector<Port>>& ports) {
  Facts facts{{"ib_ports", {}},     {"ib_ports_down", {}},  {"roce_ports", {}}, {"roce_ports_down", {}},
              {"ib_rate_gbit", {}}, {"ib_link_downed", {}}, {"ib_firmware", {}}};
  if (!ports) return facts;
  double infiniband = 0, roce = 0;
  std::vector<std::string> infiniband_down, roce_down;
  std::set<std::string> firmware;
  std::optional<double> slowest, downed;
  for (const auto& port : *ports) {
    ++(port.infiniband() ? infiniband : roce);
    if (!port.up()) (port.infiniband() ? infiniband_down : roce_down).push_back(described(port));
    if (port.firmware) firmware.insert(*port.firmware);
    if (port.infiniband() && port.link_downed) downed = downed.value_or(0) + *port.link_downed;
    if (port.up() && port.infiniband() && port.rate_gbit) slowest = std::min(slowest.value_or(1e9), *port.rate_gbit);
  }
  facts["ib_ports"] = number_fact(infiniband);
  facts["roce_ports"] = number_fact(roce);
  facts["ib_ports_down"] = number_fact(static_cast<double>(infiniband_down.size()), joined(infiniband_down));
  facts["roce_ports_down"] = number_fact(static_cast<double>(roce_down.size()), joined(roce_down));
  facts["ib_rate_gbit"] = number_fact(slowest);
  facts["ib_link_downed"] = number_fact(downed);
  facts["ib_firmware"] = text_fact(ports->empty() ? "no ports" : joined(firmware));
  return facts;
}

Fact gpudirect_rdma(const Path& root) {
  std::error_code error;
  if (!std::filesystem::exists(root / "sys/module", error)) return {};
  for (const auto* module : {"nvidia_peermem", "nv_peer_mem"}) {
    if (std::filesystem::exists(root / "sys/module" / module, error)) return number_fact(1, module);
  }
  return number_fact(0, "neither nvidia_peermem nor nv_peer_mem is loaded (modprobe nvidia_peermem)");
}

}  // namespace shakedown
