// Decides what stands in the first screen: may I use it, and if not, what do I do. Then who is at fault.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "report/culprits.hpp"
#include "report/escape.hpp"
#include "report/family_figures.hpp"
#include "report/html/sections.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/rules/applicability.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_steps = 3, max_named = 5, max_culprits = 40;

std::string about(const std::string& family) {
  if (const FamilyRow* const row = family_row(family)) return std::string(row->shows);
  return family == "machine" ? "the run itself" : "";
}

std::vector<const NodeDecision*> bad_nodes(const Page& page) {
  std::vector<const NodeDecision*> bad;
  for (const NodeDecision& node : page.nodes.nodes) {
    if (node.state == NodeState::bad) bad.push_back(&node);
  }
  return bad;
}

std::string named(const std::vector<const NodeDecision*>& nodes) {
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < std::min(nodes.size(), max_named); ++i) hosts.push_back(nodes[i]->host);
  if (nodes.size() > max_named) return joined(hosts) + " and " + std::to_string(nodes.size() - max_named) + " more";
  return joined(hosts, ", ", " and ");
}

// "node7 GPU 3 (rank 3)": enough to find it; UUID and address stand with the evidence.
std::string short_place(const Culprit& place) {
  const bool is_gpu = place.local_rank && (place.uuid || place.pci);
  return place.host + (is_gpu ? " GPU " + std::to_string(*place.local_rank) : "") +
         (place.rank ? " (rank " + std::to_string(*place.rank) + ")" : "");
}

std::string cause_and_place(const Diagnosis& d) {
  std::vector<std::string> places;
  for (const Culprit& place : d.places) {
    if (places.size() < max_named) places.push_back(short_place(place));
  }
  if (places.empty()) return causes_text(d) + ", no single one of " + plural(d.place_count, "rank");
  const bool link = d.places.size() == 2 && d.causes.front() == Cause::slow_link;
  return causes_text(d) + ": " + joined(places, link ? " to " : "; ") +
         (d.place_count > places.size() ? " and " + std::to_string(d.place_count - places.size()) + " more" : "");
}

struct Answer {
  const char* sign;
  const char* tone;  // "good", "bad" or "doubt"
  std::string headline, lead;
};

Answer failed(const Page& page) {
  const Verdict& verdict = page.verdict;
  const auto bad = bad_nodes(page);
  std::string lead = text(headline_of(verdict).fault) + ".";
  if (bad.empty()) {
    return {"&#10007;", "bad", "Do not use it yet: it fails, and no node alone is to blame", lead};
  }
  const std::size_t all = page.nodes.nodes.size();
  if (all > 1) {
    lead += page.nodes.undecided_because.empty()
                ? " The other " + plural(all - bad.size(), "node") + " may be used."
                : " The others are not proven good: " + page.nodes.undecided_because.front() + ".";
  }
  return {"&#10007;", "bad",
          all == 1 ? "Do not use " + bad.front()->host
                   : "Take out " + std::to_string(bad.size()) + " of " + plural(all, "node") + ": " + named(bad),
          lead};
}

Answer answer(const Page& page) {
  const Verdict& verdict = page.verdict;
  const std::string why = text(headline_of(verdict).fault) + ".";
  switch (verdict.state) {
    case State::pass:
      return {"&#10003;", "good", "Yes, use it",
              "All " + std::to_string(verdict.total) + " findings that count are good."};
    case State::fail: return failed(page);
    case State::inconclusive: return {"?", "doubt", "Not yet: a figure was too noisy. Measure again", why};
    case State::no_reference:
      return {"?", "doubt", "Not proven: part of it has nothing to be judged by", "Nothing failed. " + why};
    case State::incomplete: return {"?", "doubt", "Not proven: the run is incomplete", why};
    case State::host_only:
      return {"&#8211;", "doubt", "No GPU was measured",
              "Only the processors were, and all that was asked of them is good."};
    case State::partial:
      return {"&#8211;", "doubt", "Not proven: only a part was measured",
              "All that was asked for is good: " + asked_text(verdict) + "."};
    case State::fit:
      return {"&#10003;", "good", "Fit for work, by pre-flight",
              "Pre-flight alone was asked for, and it is good. Speed and data were not measured."};
  }
  return {"?", "doubt", "", ""};
}

std::string fact(const std::string& name, const std::string& value) {
  return value.empty() ? "" : "<div><dt>" + html_escaped(name) + "</dt><dd>" + html_escaped(value) + "</dd></div>";
}

std::string version(const Page& page, const std::string& name) {
  if (page.context == nullptr) return "";
  const auto found = page.context->versions.find(name);
  return found == page.context->versions.end() ? "" : found->second.value_or("");
}

std::string facts(const Page& page) {
  const Verdict& v = page.verdict;
  std::string when = v.started;
  if (when.size() == 20 && when[10] == 'T') when = when.substr(0, 10) + " " + when.substr(11, 5) + " UTC";
  const std::string hosts =
      v.nodes.size() == 1 ? "host " + v.nodes.front().host : plural(std::max<std::size_t>(v.nodes.size(), 1), "host");
  std::string driver = version(page, "driver");
  if (const auto nccl = version(page, "nccl"); !nccl.empty()) driver += ", NCCL " + nccl;
  return "<dl class=\"facts\">" + fact("When", when.empty() ? "unknown" : when) +
         fact("Machine", plural(v.ranks, "rank") + " on " + hosts + ": " +
                             (v.devices.empty() ? "unknown devices" : joined(v.devices))) +
         fact("Driver", driver) + fact("Profile", v.profile) +
         fact("Tier", page.context != nullptr ? page.context->tier : "") + fact("Run", joined(v.run_ids)) + "</dl>";
}

std::string step(const std::string& what, const std::string& command) {
  return "<p>" + html_escaped(sentence(what)) + "</p>" +
         (command.empty() ? "" : "<pre>" + html_escaped(command) + "</pre>");
}

// For who does not know the words of lists of nodes; they stand behind.
std::string in_words(const NodeDecision& node) {
  const std::string word = " (" + std::string(name(node.action)) + ")";
  switch (node.action) {
    case Action::isolate: return "Take " + node.host + " out of service" + word;
    case Action::reset: return "Restart " + node.host + " and measure it again" + word;
    case Action::monitor: return "Watch " + node.host + word;
    case Action::none: break;
  }
  return node.host;
}

std::string what_to_do(const Page& page) {
  const Verdict& verdict = page.verdict;
  std::string out;
  std::size_t steps = 0;
  std::map<std::string, const NodeDecision*> bad;
  for (const NodeDecision* node : bad_nodes(page)) bad.emplace(node->host, node);
  std::set<std::string> explained;
  for (const Diagnosis& d : verdict.culprits) {
    if (!d.fails || ++steps > max_steps) continue;
    const auto node = d.places.empty() ? bad.end() : bad.find(d.places.front().host);
    out += step(node == bad.end()
                    ? cause_and_place(d)
                    : in_words(*node->second) + ": " + cause_and_place(d) + (d.next.empty() ? "" : ". Look at it with"),
                d.next);
    for (const Culprit& place : d.places) explained.insert(place.host);
  }
  for (const auto& [host, node] : bad) {
    if (explained.contains(host) || ++steps > max_steps) continue;
    out += step(in_words(*node) + ": " + node->reasons.front(), node->next);
  }
  if (const auto commands = repair_commands(verdict); !commands.empty()) {
    out += step("For the repair desk, before anything is restarted", joined(commands, "\n"));
  }
  if (!bad.empty()) out += step("When it is mended, measure again", "ci/accept");
  if (steps > max_steps) out += step("and " + std::to_string(steps - max_steps) + " more, below", "");
  if (const FaultSummary fault = headline_of(verdict).fault; steps == 0 && !is_good(verdict.state)) {
    out += step(text(fault), fault.next);
  }
  if (out.empty() && verdict.state == State::pass) {
    out = step("Nothing. Keep this run: later ones can be compared with it.", "");
  }
  if (verdict.is_partial() && is_good(verdict.state)) out += step("Measure the rest", "ci/accept");
  for (const Diagnosis& d : verdict.culprits) {
    if (d.fails || d.places.empty() || ++steps > max_steps) continue;
    out += step("Watch " + place_text(d.places.front()) + ": " + causes_text(d) + ", a warning", "");
  }
  return section("do", "What to do", "", out.empty() ? "<p>Nothing was found to do.</p>" : out);
}

// How far the closest value stays on the good side of its limit.
std::optional<double> margin(const Finding& f) {
  const auto compared = f.compared();
  if (!compared || compared->limit.kind != LimitKind::min || compared->limit.value <= 0 || !f.counts())
    return std::nullopt;
  return -compared->limit.shortfall(compared->value);
}

struct Family {
  std::size_t good = 0, bad = 0, unproven = 0, warnings = 0;  // unproven: too noisy, or nothing to be judged by
  std::optional<double> least;
  std::string usual;  // its figure, and what stored runs have
};

std::string usual_words(const Finding& f) {
  return readable(f.key) + ": " + value_text(f) + ", normal: " + usual_text(f);
}

std::string what_was_judged(const Page& page) {
  const Verdict& verdict = page.verdict;
  std::map<std::string, Family> seen;
  for (const Finding& f : verdict.findings) {
    Family& family = seen[family_of(f.key)];
    if (!f.counts()) {
      family.warnings += f.good() ? 0 : 1;
      continue;
    }
    const bool open = f.status == Status::no_reference || f.status == Status::inconclusive;
    ++(f.good() ? family.good : open ? family.unproven : family.bad);
    if (const auto m = margin(f); m && f.good()) family.least = std::min(family.least.value_or(*m), *m);
  }
  for (const Unjudged& point : verdict.unjudged) seen[family_of(point.key)];
  for (const auto& [finding, margin] : family_figures(verdict)) {
    if (finding->seen) seen[finding->key.family()].usual = usual_words(*finding);
  }
  const auto line = [&](const std::string& name, const Family& f) {
    const bool proven = f.good > 0 && f.bad + f.unproven == 0;
    const char* tone = f.bad > 0 ? "fail" : proven ? "pass" : "doubt";
    const char* sign = f.bad > 0 ? "&#10007;" : proven ? "&#10003;" : "?";
    std::vector<std::string> words;
    if (f.good + f.bad > 0) words.push_back(fmt::format("{} of {} good", f.good, f.good + f.bad));
    if (f.unproven > 0) words.push_back(std::to_string(f.unproven) + " not proven");
    if (words.empty()) words.push_back("judged by no rule");
    if (f.least && proven && *f.least >= 0.005)
      words.push_back(fmt::format("{:.0f} % over its floors", 100 * *f.least));
    if (f.warnings > 0) words.push_back(plural(f.warnings, "warning"));
    return fmt::format(
        "<tr><td><span class=\"is-{}\">{}</span></td><th scope=\"row\">{}</th><td class=\"soft\">{}</td>"
        "<td class=\"much\">{}{}</td></tr>",
        tone, sign, html_escaped(name), html_escaped(about(name)), html_escaped(joined(words)),
        proven && !f.usual.empty() ? "<small>" + html_escaped(f.usual) + "</small>" : "");
  };
  std::string out = "<table class=\"families\">";
  std::vector<std::string> absent;
  for (const FamilyRow& row : family_rows()) {
    const std::string name(row.name);
    const auto found = seen.find(name);
    if (found == seen.end()) {
      // A soak judges its rounds, not the rows of a family.
      const auto* const soak = page.judged.soak;
      const std::vector<std::string> none, &soaked = soak != nullptr ? soak->plan.families : none;
      if (std::find(soaked.begin(), soaked.end(), name) != soaked.end()) continue;
      absent.push_back(fmt::format("{} ({})", row.name, row.shows));
      continue;
    }
    out += line(found->first, found->second);
    seen.erase(found);
  }
  for (const auto& [name, family] : seen) out += line(name, family);
  out += "</table>";
  std::vector<std::string> gaps;
  for (const Finding& f : verdict.findings) {
    if (f.status == Status::no_reference && f.counts()) gaps.push_back(f.key.text() + ": " + f.detail);
  }
  if (!absent.empty()) gaps.push_back("not measured: " + joined(absent));
  if (const std::string open = unjudged_text(verdict); !open.empty()) gaps.push_back(open);
  if (const auto waivers = waivers_text(verdict); !waivers.empty()) {
    gaps.push_back("waived: " + joined(waivers, "; "));
  }
  if (verdict.hosts <= 1) gaps.push_back("one host only: nothing is said of the network between hosts");
  gaps.insert(gaps.end(), verdict.notes.begin(), verdict.notes.end());
  out += "<h3>Not judged</h3><ul>";
  for (const std::string& gap : gaps) out += "<li>" + html_escaped(one_line(gap)) + "</li>";
  return section("judged", "What was judged", "", out + "</ul>");
}

std::string evidence_table(const Diagnosis& d) {
  if (d.evidence.empty()) return "";
  std::string rows;
  for (const Evidence& e : d.evidence) {
    const std::string unit = unit_of(e.metric);
    rows += "<tr>" + name_cell(e.key, e.metric) + cell(e.value ? quantity_text(*e.value, unit) : "-", "measured") +
            cell(e.expected ? number_text(*e.expected) + (e.by == Judgement::peers ? " (peers)" : " (limit)") : "-",
                 "expected") +
            cell(e.percent ? fmt::format("{:.1f} %", *e.percent) : "-", "off by") + "</tr>";
  }
  if (d.evidence_count > d.evidence.size()) {
    rows += "<tr><td colspan=\"4\">and " + std::to_string(d.evidence_count - d.evidence.size()) +
            " more measurements</td></tr>";
  }
  return "<table class=\"tight stack\">" + heads({"evidence", "measured", "expected", "off by"}) + "<tbody>" + rows +
         "</tbody></table>";
}

}  // namespace

Page::Page(const Judged& all) : judged(all), verdict(all.verdict), nodes(decide_nodes(all.verdict)) {
  if (!judged.measured) return;
  for (const Results& file : judged.measured->files) {
    if (context == nullptr || file.context.world_size > context->world_size) context = &file.context;
  }
  profile = select_profile(judged.measured->files, judged.profiles).profile;
  peers = compare_peers(judged.measured->benchmarks, {});
}

std::string section(const std::string& id, const std::string& title, const std::string& words,
                    const std::string& body) {
  if (body.empty()) return "";
  return "<section id=\"" + id + "\"><h2>" + html_escaped(title) + "</h2>" +
         (words.empty() ? "" : "<p class=\"soft\">" + html_escaped(words) + "</p>") + body + "</section>\n";
}

std::string sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 32);
  return text;
}

std::string folded(const std::string& title, const std::string& body) {
  return body.empty() ? "" : "<details><summary>" + html_escaped(title) + "</summary>" + body + "</details>\n";
}

std::string cell(const std::string& text, const std::string& column) {
  return "<td" + (column.empty() ? "" : " data-of=\"" + html_escaped(column) + "\"") + ">" + html_escaped(text) +
         "</td>";
}

std::string name_cell(const Key& key, const std::string& metric) {
  const std::string name = name_text(key), text = joined_words(key, metric);
  return name.empty() ? cell(text) : "<td>" + html_escaped(name) + "<small>" + html_escaped(text) + "</small></td>";
}

std::string heads(const std::vector<std::string>& columns) {
  std::string out = "<thead><tr>";
  for (const std::string& column : columns) out += "<th scope=\"col\">" + html_escaped(column) + "</th>";
  return out + "</tr></thead>";
}

std::string first_screen(const Page& page) {
  const Answer a = answer(page);
  const Verdict& v = page.verdict;
  return "<header class=\"" + std::string(a.tone) + "\"><p class=\"state\">" + a.sign + " " +
         html_escaped(std::string(name(v.state)) + " " + std::to_string(v.passed) + "/" + std::to_string(v.total)) +
         "</p><h1>" + html_escaped(a.headline) + "</h1><p class=\"lead\">" + html_escaped(one_line(a.lead)) + "</p>" +
         facts(page) +
         "<p class=\"filter\" hidden><label><input type=\"checkbox\" id=\"print-all\"> Print every section</label></p>"
         "</header>\n<div class=\"two\">" +
         what_to_do(page) + what_was_judged(page) + "</div>\n";
}

std::string culprits_section(const Page& page) {
  const auto& culprits = page.verdict.culprits;
  std::string out;
  for (std::size_t i = 0; i < std::min(culprits.size(), max_culprits); ++i) {
    const Diagnosis& d = culprits[i];
    std::string places;
    for (const Culprit& place : d.places) places += (places.empty() ? "" : "<br>") + html_escaped(place_text(place));
    out += "<div class=\"culprit\"><h3><span class=\"" + std::string(d.fails ? "is-fail" : "is-doubt") + "\">" +
           (d.fails ? "&#10007; " : "&#8211; ") + html_escaped(cause_and_place(d)) + (d.fails ? "" : " (warning)") +
           "</span>" + "</h3><p>" + html_escaped(d.detail) + "</p><p class=\"soft\">" + places + "</p>" +
           evidence_table(d) +
           (d.telemetry.empty() ? "" : "<p class=\"soft\">Telemetry: " + html_escaped(d.telemetry) + "</p>") +
           (d.next.empty() ? "" : "<pre>" + html_escaped(d.next) + "</pre>") + "</div>";
  }
  if (culprits.size() > max_culprits) {
    out += "<p>and " + std::to_string(culprits.size() - max_culprits) + " more: all are in verdict.json</p>";
  }
  return section("fault", "The part at fault", "Findings combined, each with its evidence and the next command.", out);
}

}  // namespace shakedown
