#include "node/flow_control.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/archive.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

using Words = std::vector<std::string>;

/// Returns the lossless priorities in {"prio_pfc": [false, false, false, true, ...]}; nullopt for another text.
std::optional<std::vector<std::string>> lossless_priorities(const std::string& text) {
  const auto document = document_of_text(text);
  const auto found = document.is_object() ? document.find("prio_pfc") : document.end();
  if (!document.is_object() || found == document.end() || !found->is_array()) return std::nullopt;
  std::vector<std::string> priorities;
  for (std::size_t i = 0; i < found->size(); ++i) {
    if ((*found)[i] == true) priorities.push_back(std::to_string(i));
  }
  return priorities;
}

/// Returns true if the table {"dscp_prio": [[26, 3], ...]} has an entry. dcb omits empty tables. nullopt for another
/// text.
std::optional<bool> has_dscp(const std::string& text) {
  const auto document = document_of_text(text);
  if (!document.is_object()) return std::nullopt;
  const auto found = document.find("dscp_prio");
  if (found != document.end() && !found->is_array()) return std::nullopt;
  return found != document.end() && !found->empty();
}

std::string told_by_dcb(const std::string& table, const std::string& interface, const std::string& part) {
  const auto said =
      output_of({"dcb", "-j", table, "show", "dev", interface, part}, std::chrono::seconds(2), std::chrono::seconds(1));
  return said.started && said.code == 0 ? said.text : "";
}

/// Returns the fact with the number and the names of these ports; unknown if no port reports it.
Fact number_of_ports(const std::optional<std::vector<std::string>>& names) {
  return names ? number_fact(static_cast<double>(names->size()), joined(*names)) : Fact{};
}

}  // namespace

std::map<std::string, PriorityTables> read_flow_control(const std::filesystem::path& root,
                                                        const std::vector<Facts>& ports,
                                                        const std::vector<std::string>& rails) {
  std::map<std::string, PriorityTables> tables;
  for (const Facts& port : ports) {
    const auto name = port.at("port").text.value_or("");
    const auto& interface = port.at("netdev").text;
    const bool is_rail = std::find(rails.begin(), rails.end(), name) != rails.end();
    if (!is_rail || port.at("link_layer").text != "Ethernet" || !interface) continue;
    const auto device = lines_of(root / "sys/class/net" / *interface / "device/uevent").value_or(Words());
    tables[name] = {told_by_dcb("pfc", *interface, "prio-pfc"), told_by_dcb("app", *interface, "dscp-prio"),
                    std::find(device.begin(), device.end(), "DRIVER=mlx5_core") != device.end()};
  }
  return tables;
}

Facts flow_control_facts(const std::map<std::string, PriorityTables>& tables) {
  std::map<std::string, std::vector<std::string>> by_priorities;
  std::optional<std::vector<std::string>> without_pfc, without_dscp;
  const auto note = [](auto& names, const std::string& port, bool is_without) {
    if (!names) names.emplace();
    if (is_without) names->push_back(port);
  };
  for (const auto& [port, of_port] : tables) {
    const auto dscp = has_dscp(of_port.app);
    if (dscp && (*dscp || of_port.trusts_by_table)) note(without_dscp, port, !*dscp);
    const auto priorities = lossless_priorities(of_port.pfc);
    if (!priorities) continue;
    by_priorities[priorities->empty() ? "none" : joined(*priorities)].push_back(port);
    note(without_pfc, port, priorities->empty());
  }
  std::vector<std::string> words;
  for (const auto& [priorities, names] : by_priorities) {
    words.push_back(priorities + (by_priorities.size() > 1 ? " (" + joined(names) + ")" : ""));
  }
  return {{"roce_pfc", words.empty() ? Fact{} : text_fact(joined(words, "; "))},
          {"roce_without_pfc", number_of_ports(without_pfc)},
          {"roce_without_dscp", number_of_ports(without_dscp)}};
}

}  // namespace shakedown
