#include "report/culprits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/archive.hpp"
#include "base/text.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t max_in_full = 10, max_evidence_shown = 3, max_nodes_shown = 10, max_places_shown = 3;

std::string one_digit(double value) { return fmt::format("{:.1f}", value); }

std::string percent(double value) { return one_digit(value) + " %"; }

std::string painted(const std::string& text, bool color, const char* code) {
  return color ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

std::string evidence_text(const Evidence& e) {
  const std::string unit = unit_of(e.metric);
  std::string line = e.key.text() + (e.metric.empty() ? "" : " " + e.metric);
  if (e.value) line += " " + number_text(*e.value) + (unit.empty() ? "" : " " + unit);
  if (e.expected) line += (e.by == Judgement::peers ? ", peers " : ", limit ") + number_text(*e.expected);
  if (e.percent) line += ", " + percent(*e.percent) + " off";
  if (e.mads) line += ", " + one_digit(*e.mads) + " MADs";
  return line + " (" + std::string(name(e.by)) + ")";
}

// The first line begins with the cause, which is coloured. A command is never wrapped, so that it can be copied.
std::string culprit_text(const Diagnosis& d, const Consequences& consequences, TerminalStyle style) {
  const auto line = [&](const std::string& text) { return joined(wrapped(printable(text), style.width - 2), "\n  "); };
  std::string out = std::string(d.fails ? "" : " (warning)") + ": ";
  if (d.places.empty()) out += "all " + std::to_string(d.place_count) + " ranks";
  const bool link = d.places.size() == 2 && d.causes.front() == Cause::slow_link;
  const std::size_t shown = std::min(d.places.size(), max_places_shown);
  for (std::size_t i = 0; i < shown; ++i) {
    out += (i == 0 ? "" : link ? "\n     to " : "\n     and ") + place_text(d.places[i], Identifiers::all);
  }
  if (d.place_count > shown && shown > 0) out += "\n     and " + std::to_string(d.place_count - shown) + " more";
  const std::string off =
      d.percent ? percent(*d.percent) + " off" + (d.mads ? ", " + one_digit(*d.mads) + " MADs: " : ": ") : "";
  out += "\n  " + line(off + d.detail) + "\n";
  for (std::size_t i = 0; i < std::min(d.evidence.size(), max_evidence_shown); ++i) {
    out += "  " + line(evidence_text(d.evidence[i])) + "\n";
  }
  if (d.evidence_count > max_evidence_shown) {
    out += "  and " + plural(d.evidence_count - max_evidence_shown, "more measurement") + "\n";
  }
  const std::string explained = consequences_text(consequences);
  if (!explained.empty()) out += "  " + line(explained + (style.all ? "" : "; --all lists them")) + "\n";
  if (!d.telemetry.empty()) out += "  " + line("telemetry: " + d.telemetry) + "\n";
  if (!d.next.empty()) out += "  next: " + d.next + "\n";
  return painted(causes_text(d), style.color, d.fails ? "31" : "33") + printable(out);
}

// Counts the culprits of each node, beginning with the culprit at index `from`. The largest count is first.
std::string rest_text(const std::vector<Diagnosis>& culprits, std::size_t from) {
  std::map<std::string, std::size_t> count;
  for (std::size_t i = from; i < culprits.size(); ++i) {
    if (!culprits[i].places.empty()) ++count[culprits[i].places.front().host];
  }
  std::vector<std::pair<std::string, std::size_t>> nodes(count.begin(), count.end());
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out = "and " + std::to_string(culprits.size() - from) + " more on " + std::to_string(nodes.size()) +
                    (nodes.size() == 1 ? " node: " : " nodes: ");
  for (std::size_t i = 0; i < std::min(nodes.size(), max_nodes_shown); ++i) {
    out += (i == 0 ? "" : ", ") + nodes[i].first + " (" + std::to_string(nodes[i].second) + ")";
  }
  return out + (nodes.size() > max_nodes_shown ? ", ..." : "") + "; all are in verdict.json\n";
}

// True for facts and counters that only a hardware repair can change.
bool is_one_of_hardware(std::string_view metric) {
  constexpr std::array metrics{"ecc_uncorrected", "remap_failed", "gpus_missing", "nvlinks_up",
                               "pcie_width",      "pcie_gen",     "dcgm_failed"};
  return std::find(metrics.begin(), metrics.end(), metric) != metrics.end();
}

}  // namespace

std::vector<std::string> repair_commands(const Verdict& verdict) {
  constexpr std::size_t max_commands = 3;
  std::vector<std::string> hosts;
  const auto add = [&](const Culprit& place) {
    if (std::find(hosts.begin(), hosts.end(), place.host) == hosts.end()) hosts.push_back(place.host);
  };
  for (const Diagnosis& d : verdict.culprits) {
    const Cause cause = d.causes.front();
    const bool hardware = cause == Cause::slow_gpu || cause == Cause::slow_link || cause == Cause::slow_nic ||
                          cause == Cause::wrong_data || (cause == Cause::power_or_heat && d.heat);
    if (d.fails && hardware) std::for_each(d.places.begin(), d.places.end(), add);
  }
  for (const Finding& f : verdict.findings) {
    const bool hardware = f.key.text().starts_with("machine/errors/") || is_one_of_hardware(f.metric);
    if (f.status == Status::fail && f.counts() && hardware) {
      std::for_each(f.offenders.begin(), f.offenders.end(), add);
    }
  }
  if (hosts.empty()) return {};
  std::vector<std::string> commands;
  for (std::size_t i = 0; i < std::min(hosts.size(), max_commands); ++i) {
    commands.push_back(on_host(hosts[i], "nvidia-bug-report.sh"));
  }
  if (hosts.size() > max_commands) commands.back() += "  # and " + plural(hosts.size() - max_commands, "more host");
  commands.push_back("build/bin/shakedown archive --results=DIR  # of this run");
  return commands;
}

std::string culprits_text(const Verdict& verdict, TerminalStyle style) {
  const auto repair = repair_commands(verdict);
  std::string end;
  for (const std::string& command : repair) end += "  " + one_line(command) + "\n";
  if (!end.empty()) end = "For the repair desk, before anything is restarted:\n" + end + "\n";
  if (verdict.culprits.empty()) return end;
  const auto failing =
      std::count_if(verdict.culprits.begin(), verdict.culprits.end(), [](const auto& d) { return d.fails; });
  std::string out = "CULPRITS: " + std::to_string(failing) + "\n\n";
  const auto consequences = consequences_of(verdict.culprits, verdict.findings);
  for (std::size_t i = 0; i < std::min(verdict.culprits.size(), max_in_full); ++i) {
    out += culprit_text(verdict.culprits[i], consequences[i], style) + "\n";
  }
  if (verdict.culprits.size() > max_in_full) out += printable(rest_text(verdict.culprits, max_in_full)) + "\n";
  return out + end;
}

std::string judgements_text(const Verdict& verdict) {
  std::vector<Summary> all = verdict.summaries;
  std::stable_sort(all.begin(), all.end(), [](const Summary& a, const Summary& b) { return a.by < b.by; });
  std::string out;
  for (const Summary& summary : all) out += std::string(name(summary.by)) + ": " + summary.text + "\n";
  return out.empty() ? "" : out + "\n";
}

std::string nodes_json(const NodeList& list) {
  ordered_json nodes = ordered_json::array();
  for (const NodeDecision& node : list.nodes) {
    nodes.push_back({{"host", node.host},
                     {"ranks", node.ranks},
                     {"state", name(node.state)},
                     {"action", node.action == Action::none ? ordered_json(nullptr) : ordered_json(name(node.action))},
                     {"reasons", node.reasons},
                     {"next", node.next}});
  }
  const ordered_json document = {{"schema", 1},
                                 {"verdict", lower(name(list.verdict))},
                                 {"undecided_because", list.undecided_because},
                                 {"nodes", std::move(nodes)}};
  return text_of_document(document, 2) + "\n";
}

}  // namespace shakedown
