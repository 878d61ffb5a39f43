#include "report/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/archive.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "report/csv.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

using nlohmann::ordered_json;

/// "3 h", "12 d"
std::string age_text(const std::string& started, double now) {
  const auto then = seconds_of(started);
  if (!then) return "?";
  const double hours = std::max(0.0, now - *then) / 3600;
  if (hours < 1) return fmt::format("{:.0f} min", hours * 60);
  return hours < 48 ? fmt::format("{:.0f} h", hours) : fmt::format("{:.0f} d", hours / 24);
}

std::string reason_of(const FleetNode& node) { return node.reasons.empty() ? "" : one_line(node.reasons.front()); }

std::string action_text(const FleetNode& node) {
  const std::string action(name(node.action));
  return one_line(action + (action.empty() || node.next.empty() ? "" : ": ") + node.next);
}

Table::Tone tone_of(NodeState state) {
  return state == NodeState::good  ? Table::Tone::good
         : state == NodeState::bad ? Table::Tone::bad
                                   : Table::Tone::doubtful;
}

/// Returns "8", with the GPUs at fault, or all GPUs: "8: 1653900421".
std::string gpus_text(const FleetNode& node, bool all) {
  const std::string serials = serials_text(node, all);
  return std::to_string(node.ranks) + (serials.empty() ? "" : ": " + serials);
}

bool is_recorded(const FleetNode& node) { return node.drift || node.recorded; }

/// True for nodes that the table lists without --all.
bool is_listed(const FleetNode& node) {
  return node.state != NodeState::good || node.action != Action::none ||
         (node.recorded && *node.recorded != LedgerState::good);
}

std::string nodes_text(const Fleet& fleet, const TerminalStyle& style, double now) {
  const bool has_ledger = std::ranges::any_of(fleet.nodes, is_recorded);
  std::vector<Table::Cell> head{{"node"}, {"state"}, {"own verdict"}, {"age"}, {"GPUs"}};
  if (has_ledger) head.insert(head.end(), {{"in the ledger"}, {"against own runs"}});
  head.insert(head.end(), {{"finding"}, {"what to do"}});
  Table table(std::move(head));
  std::size_t shown = 0, listed = 0;
  for (const FleetNode& node : fleet.nodes) {
    if (!style.all && !is_listed(node)) continue;
    ++listed;
    if (!style.all && shown == max_lines_shown) continue;
    ++shown;
    std::vector<Table::Cell> row{{one_line(node.host)},
                                 {std::string(name(node.state)), tone_of(node.state)},
                                 {node.started.empty() && node.run.empty() ? "none" : std::string(name(node.verdict))},
                                 {age_text(node.started, now)},
                                 {gpus_text(node, style.all)}};
    if (has_ledger) row.insert(row.end(), {{recorded_text(node)}, {drift_text(node)}});
    row.insert(row.end(), {{reason_of(node)}, {action_text(node)}});
    table.add(std::move(row));
  }
  std::string out = shown == 0 ? "" : table.text(style.table());
  if (listed > shown) out += "and " + plural(listed - shown, "more node") + "; --all lists them\n";
  return out;
}

std::string left_out_text(const Fleet& fleet, bool all) {
  std::string out;
  std::size_t older = 0, shown = 0;
  const auto add = [&](const std::string& what, const std::string& why) {
    if (all || shown < max_lines_shown) out += "  " + one_line(what + ": " + why) + "\n";
    ++shown;
  };
  for (const UnusedRun& left : fleet.left_out) {
    if (left.is_older && left.why == "older" && !all)
      ++older;
    else
      add(left.path, left.why);
  }
  for (const FleetNode& node : fleet.nodes) {
    if (!node.not_compared.empty() && !node.run.empty())
      add(node.host, "not compared with other nodes: " + node.not_compared);
  }
  if (!all && shown > max_lines_shown) out += "  and " + std::to_string(shown - max_lines_shown) + " more\n";
  if (older > 0) out += "  " + plural(older, "older run") + "\n";
  return out.empty() ? "" : "left out:\n" + out;
}

}  // namespace

std::string serials_text(const FleetNode& node, bool all) {
  std::vector<std::string> serials;
  for (const LedgerGpu& gpu : node.gpus) {
    if ((all || gpu.accused) && !gpu.id().empty()) serials.push_back(gpu.id());
  }
  return joined(serials, " ");
}

std::string recorded_text(const FleetNode& node) {
  if (!node.recorded) return "";
  const std::string state(name(*node.recorded)), since = node.recorded_since.substr(0, node.recorded_since.find('T'));
  return state + (since.empty() ? "" : " since " + since);
}

std::string drift_text(const FleetNode& node) {
  return node.drift ? signed_percent(node.drift->percent / 100) + " in " + node.drift->family : "";
}

std::string fleet_text(const Fleet& fleet, const TerminalStyle& style, double now) {
  std::string out = headline_text(fleet) + "\n\n" + nodes_text(fleet, style, now) + left_out_text(fleet, style.all);
  for (const std::string& said : fleet.summaries) out += "peers: " + said + "\n";
  out += plural(fleet.count(NodeState::good), "node") + " of " + std::to_string(fleet.nodes.size()) + " good\n\n";
  return printable(out) + "FLEET: " + headline_text(fleet) + "\n";
}

namespace {

ordered_json or_null(std::string text) { return text.empty() ? ordered_json(nullptr) : ordered_json(std::move(text)); }

ordered_json gpus_json(const FleetNode& node) {
  ordered_json gpus = ordered_json::array();
  for (const LedgerGpu& gpu : node.gpus) {
    gpus.push_back({{"slot", gpu.slot},
                    {"serial", or_null(gpu.serial.value_or(""))},
                    {"uuid", or_null(gpu.uuid.value_or(""))},
                    {"device", or_null(gpu.device.value_or(""))},
                    {"at_fault", gpu.accused}});
  }
  return gpus;
}

ordered_json recorded_json(const FleetNode& node) {
  if (!node.recorded) return nullptr;
  return {{"state", name(*node.recorded)}, {"since", or_null(node.recorded_since)}};
}

ordered_json drift_json(const FleetNode& node) {
  if (!node.drift) return nullptr;
  return {{"percent", Writer::written(node.drift->percent)},
          {"family", node.drift->family},
          {"gpu", or_null(node.drift->gpu)},
          {"runs", node.drift->runs},
          {"is_loss", node.drift->is_loss}};
}

}  // namespace

std::string fleet_json(const Fleet& fleet) {
  ordered_json nodes = ordered_json::array(), left_out = ordered_json::array();
  for (const FleetNode& node : fleet.nodes) {
    nodes.push_back({{"host", node.host},
                     {"state", name(node.state)},
                     {"verdict", lower(name(node.verdict))},
                     {"started", or_null(node.started)},
                     {"ranks", node.ranks},
                     {"profile", or_null(node.profile)},
                     {"action", or_null(std::string(name(node.action)))},
                     {"reasons", node.reasons},
                     {"next", node.next},
                     {"run", or_null(node.run)},
                     {"not_compared", or_null(node.not_compared)},
                     {"gpus", gpus_json(node)},
                     {"ledger", recorded_json(node)},
                     {"drift", drift_json(node)}});
  }
  for (const UnusedRun& left : fleet.left_out) left_out.push_back({{"path", left.path}, {"why", left.why}});
  const ordered_json document = {{"schema", 1},
                                 {"fleet", lower(name(fleet.state))},
                                 {"headline", headline_text(fleet)},
                                 {"good", fleet.count(NodeState::good)},
                                 {"bad", fleet.count(NodeState::bad)},
                                 {"undecided", fleet.count(NodeState::undecided)},
                                 {"nodes", std::move(nodes)},
                                 {"left_out", std::move(left_out)},
                                 {"peers", fleet.summaries}};
  return text_of_document(document, 2) + "\n";
}

std::string fleet_csv(const Fleet& fleet) {
  std::string out = csv_row({"host", "state", "verdict", "started", "ranks", "profile", "action", "reason", "next",
                             "run", "not_compared", "gpus", "gpus_at_fault", "ledger_state", "ledger_since",
                             "drift_percent", "drift_family", "drift_gpu"});
  for (const FleetNode& node : fleet.nodes) {
    out += csv_row({node.host, std::string(name(node.state)), lower(name(node.verdict)), node.started,
                    std::to_string(node.ranks), node.profile, std::string(name(node.action)), reason_of(node),
                    node.next, node.run, node.not_compared, serials_text(node, true), serials_text(node, false),
                    std::string(node.recorded ? name(*node.recorded) : ""), node.recorded_since,
                    node.drift ? number_text(node.drift->percent) : "", node.drift ? node.drift->family : "",
                    node.drift ? node.drift->gpu : ""});
  }
  return out;
}

}  // namespace shakedown
