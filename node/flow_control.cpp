#include "node/flow_control.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/process.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

/// Returns the lossless priorities in {"prio_pfc": [false, false, false, true, ...]}; nullopt for another text.
std::optional<std::vector<std::string>> lossless_priorities(const std::string& text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  const auto found = document.is_object() ? document.find("prio_pfc") : document.end();
  if (!document.is_object() || found == document.end() || !found->is_array()) return std::nullopt;
  std::vector<std::string> priorities;
  for (std::size_t i = 0; i < found->size(); ++i) {
    if ((*found)[i] == true) priorities.push_back(std::to_string(i));
  }
  return priorities;
}

}  // namespace

std::map<std::string, std::string> read_flow_control(const std::vector<Facts>& ports,
                                                     const std::vector<std::string>& rails) {
  std::map<std::string, std::string> settings;
  for (const Facts& port : ports) {
    const auto name = port.at("port").text.value_or("");
    const auto& interface = port.at("netdev").text;
    const bool is_rail = std::find(rails.begin(), rails.end(), name) != rails.end();
    if (!is_rail || port.at("link_layer").text != "Ethernet" || !interface) continue;
    const auto said = output_of({"dcb", "-j", "pfc", "show", "dev", *interface, "prio-pfc"}, std::chrono::seconds(2),
                                std::chrono::seconds(1));
    settings[name] = said.started && said.code == 0 ? said.text : "";
  }
  return settings;
}

Facts flow_control_facts(const std::map<std::string, std::string>& settings) {
  std::map<std::string, std::vector<std::string>> ports;  // by their lossless priorities
  std::vector<std::string> without;
  for (const auto& [port, text] : settings) {
    const auto priorities = lossless_priorities(text);
    if (!priorities) continue;
    ports[priorities->empty() ? "none" : joined(*priorities)].push_back(port);
    if (priorities->empty()) without.push_back(port);
  }
  if (ports.empty()) return {{"roce_pfc", {}}, {"roce_without_pfc", {}}};
  std::vector<std::string> words;
  for (const auto& [priorities, names] : ports) {
    words.push_back(priorities + (ports.size() > 1 ? " (" + joined(names) + ")" : ""));
  }
  return {{"roce_pfc", text_fact(joined(words, "; "))},
          {"roce_without_pfc", number_fact(static_cast<double>(without.size()), joined(without))}};
}

}  // namespace shakedown
