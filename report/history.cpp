#include "report/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/host_list.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "report/gauges.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

using nlohmann::ordered_json;

std::string day_of(const std::string& time) { return time.substr(0, time.find('T')); }

std::string counts_text(const History& history) {
  std::vector<std::string> counts;
  for (const std::string_view state : words(LedgerState{})) {
    const auto n = std::ranges::count_if(history.nodes, [&](const auto& node) { return name(node.state) == state; });
    if (n > 0) counts.push_back(std::to_string(n) + " " + std::string(state));
  }
  return plural(history.nodes.size(), "node") + (counts.empty() ? "" : ": " + joined(counts));
}

std::string run_text(const LedgerEvent* run) {
  if (run == nullptr) return "none";
  return std::string(name(run->verdict)) + " " + day_of(run->time);
}

std::string action_of(const NodeRecord& node) {
  switch (node.state) {
    case LedgerState::bad: return "drain and repair it; then shakedown ledger add --event=repaired";
    case LedgerState::drained: return "repair it; then shakedown ledger add --event=repaired";
    case LedgerState::repaired: return "shakedown retest " + node.node;
    case LedgerState::proven: return "return it: shakedown retest " + node.node;
    case LedgerState::never_tested: return "measure it";
    case LedgerState::good: break;
  }
  return "";
}

std::string proofs_text(const NodeRecord& node) {
  return fmt::format("{} of {} good runs", std::min(node.proofs, proving_runs), proving_runs);
}

bool is_open(const NodeRecord& node) {
  return node.state != LedgerState::good && node.state != LedgerState::never_tested;
}

std::string nodes_text(const History& history, const TerminalStyle& style) {
  Table table({{"node"}, {"state"}, {"since"}, {"last run"}, {"proof"}, {"reason"}, {"what to do"}});
  std::vector<const NodeRecord*> nodes;
  for (const NodeRecord& node : history.nodes) {
    if (style.all || node.state != LedgerState::good) nodes.push_back(&node);
  }
  std::ranges::stable_sort(nodes, {}, [](const NodeRecord* node) { return node->state; });
  const std::size_t shown = style.all ? nodes.size() : std::min(nodes.size(), max_lines_shown);
  for (const NodeRecord* const node : std::vector(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(shown))) {
    const bool is_good = node->state == LedgerState::good;
    table.add({{one_line(node->node)},
               {std::string(name(node->state)), is_good                               ? Table::Tone::good
                                                : node->state <= LedgerState::drained ? Table::Tone::bad
                                                                                      : Table::Tone::doubtful},
               {day_of(node->since)},
               {run_text(node->last_run)},
               {is_open(*node) ? proofs_text(*node) : ""},
               {is_good ? "" : shortened(node->reason, 160)},
               {action_of(*node)}});
  }
  std::string out = shown == 0 ? "" : table.text(style.table());
  if (nodes.size() > shown) out += "and " + plural(nodes.size() - shown, "more node") + "; --all lists them\n";
  return out;
}

/// Returns a line for each GPU that a run accused in another node than it is in now.
std::string moved_text(const History& history) {
  std::string out;
  for (const GpuRecord& gpu : history.gpus) {
    if (gpu.accusations.empty() || gpu.accusations.back()->node == gpu.places.back().node) continue;
    const LedgerEvent& run = *gpu.accusations.back();
    out += one_line(fmt::format("moved: GPU {} is in {} since {}; in {} it failed on {}: {}", gpu.id,
                                gpu.places.back().node, day_of(gpu.places.back().since), run.node, day_of(run.time),
                                run.reason)) +
           "\n";
  }
  return out;
}

std::string events_text(const History& history, const std::vector<LedgerEvent>& events, const TerminalStyle& style) {
  const bool is_node = history.nodes.size() == 1;
  std::vector<const LedgerEvent*> ours;
  for (const LedgerEvent& event : events) {
    const bool has_gpu = std::ranges::any_of(event.gpus, [&](const auto& gpu) { return gpu.id() == history.selected; });
    if (is_node ? event.node == history.nodes.front().node : has_gpu) ours.push_back(&event);
  }
  Table table({{"time"}, {"node"}, {"event"}, {"outcome"}, {"reason"}, {"run"}});
  const std::size_t first = style.all || ours.size() <= max_lines_shown ? 0 : ours.size() - max_lines_shown;
  for (std::size_t i = first; i < ours.size(); ++i) {
    const LedgerEvent& event = *ours[i];
    const bool is_run = event.kind == EventKind::run;
    table.add_words({event.time, event.node, is_run ? std::string(name(event.verdict)) : std::string(name(event.kind)),
                     is_run ? std::string(name(event.outcome)) + (event.whole ? "" : ", in part") : "",
                     shortened(event.reason, 160), is_run ? event.id : ""});
  }
  return ours.empty()
             ? ""
             : table.text(style.table()) + (first > 0 ? plural(first, "earlier event") + "; --all lists them\n" : "");
}

std::string repair_text(const Repair& repair) {
  std::string text =
      "repair of " + day_of(repair.repair->time) + ": " + repair.repair->reason + "; before: " +
      (repair.before == nullptr ? "no failed run" : run_text(repair.before) + " (run " + repair.before->id + ")") +
      "; after:";
  for (const LedgerEvent* const run : repair.after) text += " " + run_text(run) + " (run " + run->id + ")";
  if (repair.after.size() < proving_runs) text += fmt::format(" {} of {} good runs", repair.after.size(), proving_runs);
  for (const Replacement& gpu : repair.replaced)
    text += fmt::format("; GPU {}: {} -> {}", gpu.slot, gpu.before.empty() ? "none" : gpu.before, gpu.after);
  return one_line(text) + "\n";
}

std::string course_text(const Course& course) {
  std::string text = one_line(course.unit + " " + course.key.text() + " " + course.metric) + ": ";
  if (course.changes.empty()) {
    return text + value_text(course.values.front().value, course.metric) + " to " +
           value_text(course.values.back().value, course.metric) + ", no change in " +
           plural(course.values.size(), "run") + "\n";
  }
  for (const ChangePoint& point : course.changes) {
    const CourseValue& value = course.values[point.at];
    text += fmt::format("\n  {} since {} in {} (run {}): {} to {}, {}", trend_text(point.change), value.run->time,
                        value.run->node, value.run->id, value_text(point.change.before, course.metric),
                        value_text(point.change.after, course.metric), change_text(point.change));
    if (!point.software.empty()) text += "; also new: " + joined(point.software);
  }
  return text + "\n";
}

std::string courses_text(const History& history, const TerminalStyle& style) {
  std::string out;
  std::size_t changed = 0, runs = 0;
  for (const Course& course : history.courses) {
    runs = std::max(runs, course.values.size());
    changed += course.changes.empty() ? 0 : 1;
    if (style.all || (!course.changes.empty() && changed <= max_lines_shown)) out += course_text(course);
  }
  return out + fmt::format("{} in at most {}: {} changed{}\n", plural(history.courses.size(), "figure"),
                           plural(runs, "run"), changed, style.all ? "" : "; --all lists each");
}

}  // namespace

void select(History& history, const std::vector<LedgerEvent>& events, const std::string& what) {
  std::erase_if(history.nodes, [&](const NodeRecord& node) { return !same_host(node.node, what); });
  history.selected = what;
  std::set<std::string> units;
  const std::string node = history.nodes.empty() ? "" : history.nodes.front().node;
  std::erase_if(history.gpus,
                [&](const GpuRecord& gpu) { return node.empty() ? gpu.id != what : gpu.places.back().node != node; });
  for (const GpuRecord& gpu : history.gpus) units.insert(gpu.id);
  const bool is_metric = history.nodes.empty() && history.gpus.empty();
  history.courses = courses_of(events, [&](const auto& unit, const auto& host, const Key& key, const auto& metric) {
    if (is_metric) return metric == what || key.family() == what || key.text().starts_with(what + "/") || key == what;
    return units.contains(unit) || (host == node && unit.starts_with(node));
  });
  if (is_metric && history.courses.empty())
    throw InputError("history: \"" + one_line(what) + "\" is no node, GPU or metric of the ledger; check its name");
}

std::string node_line(const NodeRecord& node) {
  std::string line = node.node + ": " + std::string(name(node.state));
  if (!node.since.empty()) line += " since " + node.since;
  if (!node.reason.empty() && is_open(node)) line += ": " + node.reason;
  if (is_open(node)) line += "; " + proofs_text(node);
  if (is_open(node) && !node.failed.empty()) line += " of " + joined(node.failed);
  return one_line(line);
}

std::string history_text(const History& history, const std::vector<LedgerEvent>& events, const TerminalStyle& style) {
  if (history.selected.empty()) {
    return nodes_text(history, style) + moved_text(history) + "LEDGER: " + counts_text(history) + "\n";
  }
  std::string out = history.nodes.empty() ? "" : node_line(history.nodes.front()) + "\n";
  if (history.nodes.empty() && !history.gpus.empty()) {
    for (const auto& place : history.gpus.front().places)
      out += fmt::format("GPU {} is GPU {} of {} since {}\n", history.selected, place.slot, place.node, place.since);
  }
  out += events_text(history, events, style) + moved_text(history);
  for (const NodeRecord& node : history.nodes) {
    for (const Repair& repair : node.repairs) out += repair_text(repair);
  }
  return out + courses_text(history, style);
}

namespace {

ordered_json json_of(const LedgerEvent* run) {
  if (run == nullptr) return nullptr;
  return {{"id", run->id}, {"time", run->time}, {"verdict", lower(name(run->verdict))}, {"folder", run->folder}};
}

/// Returns an array with an element for each item.
template <class Items, class Make>
ordered_json array_of(const Items& items, const Make& make) {
  ordered_json array = ordered_json::array();
  for (const auto& item : items) array.push_back(make(item));
  return array;
}

ordered_json json_of(const Repair& repair) {
  const auto replaced = array_of(repair.replaced, [](const Replacement& gpu) {
    return ordered_json{{"slot", gpu.slot}, {"before", gpu.before}, {"after", gpu.after}};
  });
  return {{"time", repair.repair->time},
          {"reason", repair.repair->reason},
          {"before", json_of(repair.before)},
          {"after", array_of(repair.after, [](const LedgerEvent* run) { return json_of(run); })},
          {"replaced", replaced}};
}

ordered_json json_of(const NodeRecord& node) {
  return {{"node", node.node},
          {"state", name(node.state)},
          {"since", node.since},
          {"reason", node.reason},
          {"last_run", json_of(node.last_run)},
          {"last_tested", json_of(node.last_tested)},
          {"failed", node.failed},
          {"good_runs", node.proofs},
          {"repairs", array_of(node.repairs, [](const Repair& repair) { return json_of(repair); })}};
}

ordered_json json_of(const GpuRecord& gpu) {
  const auto places = array_of(gpu.places, [](const GpuRecord::Place& place) {
    return ordered_json{{"node", place.node}, {"slot", place.slot}, {"since", place.since}};
  });
  const auto failed = array_of(gpu.accusations, [](const LedgerEvent* run) { return json_of(run); });
  return {{"gpu", gpu.id}, {"places", places}, {"failed", failed}};
}

ordered_json json_of(const Course& course) {
  const auto values = array_of(course.values, [](const CourseValue& value) {
    return ordered_json{
        {"time", value.run->time}, {"node", value.run->node}, {"run", value.run->id}, {"value", value.value}};
  });
  const auto changes = array_of(course.changes, [](const ChangePoint& point) {
    return ordered_json{{"at", point.at},
                        {"trend", name(point.change.trend)},
                        {"percent", Writer::written(point.change.percent)},
                        {"software", point.software}};
  });
  return {{"unit", course.unit},
          {"key", course.key.text()},
          {"metric", course.metric},
          {"values", values},
          {"changes", changes}};
}

}  // namespace

std::string history_json(const History& history) {
  const auto json = [](const auto& item) { return json_of(item); };
  const auto unreadable = array_of(history.unreadable, [](const UnreadableEvent& event) {
    return ordered_json{{"file", event.file}, {"why", event.why}};
  });
  const ordered_json document{{"schema", 1},
                              {"ledger", counts_text(history)},
                              {"nodes", array_of(history.nodes, json)},
                              {"gpus", array_of(history.gpus, json)},
                              {"courses", array_of(history.courses, json)},
                              {"unreadable", unreadable}};
  return text_of_document(document, 2) + "\n";
}

std::string history_prometheus(const History& history) {
  Gauges gauges;
  for (const NodeRecord& node : history.nodes) {
    gauges.add("shakedown_node_state", "1 for the current state of the node in the ledger.",
               {{"node", node.node}, {"state", std::string(name(node.state))}}, 1);
    if (node.last_tested == nullptr) continue;
    gauges.add("shakedown_node_tested_timestamp_seconds", "Start time of the node's last run of all families.",
               {{"node", node.node}}, seconds_of(node.last_tested->time).value_or(0));
  }
  gauges.add("shakedown_ledger_unreadable", "Number of ledger events that cannot be read.", {},
             static_cast<double>(history.unreadable.size()));
  for (const Course& course : history.courses) {
    if (course.changes.empty()) continue;
    gauges.add("shakedown_figure_change_ratio", "Last relative change of a figure; negative: worse.",
               {{"unit", course.unit}, {"key", course.key.text()}, {"metric", course.metric}},
               course.changes.back().change.percent.value_or(0) / 100 * (lower_is_better(course.metric) ? -1 : 1));
  }
  return gauges.text();
}

int exit_code(const History& history) {
  int code = history.selected.empty() && history.nodes.empty() ? 3 : 0;
  for (const NodeRecord& node : history.nodes) {
    if (node.state <= LedgerState::drained) return 1;
    if (node.state != LedgerState::good) code = 3;
  }
  return code;
}

}  // namespace shakedown
