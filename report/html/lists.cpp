// What is long: all findings, the facts of the hosts, and how the run was made.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "base/text.hpp"
#include "report/escape.hpp"
#include "report/html/sections.hpp"
#include "report/terminal.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/preflight_facts.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_shown = 6, max_ranks = 256, max_hosts = 64;

std::string tone(const Finding& finding) {
  if (finding.good()) return "is-pass";
  return finding.counts() && finding.status != Status::inconclusive && finding.status != Status::no_reference
             ? "is-fail"
             : "is-doubt";
}

const char* sign(const Finding& finding) {
  if (finding.good()) return finding.status == Status::waived ? "&#8211; " : "&#10003; ";
  return tone(finding) == "is-fail" ? "&#10007; " : "? ";
}

// In full where it is not good: everybody it names, the rule, its source, and what to run next.
std::string more(const Finding& finding) {
  if (finding.good()) return html_escaped(one_line(finding.detail));
  const std::string text = finding_text(finding);
  const auto line = text.find('\n');
  return html_escaped(one_line(finding.detail)) +
         (line == std::string::npos ? "" : folded("in full", "<pre>" + html_escaped(text.substr(line + 1)) + "</pre>"));
}

std::string row(const Finding& f) {
  return "<tr data-good=\"" + std::string(f.good() ? "yes" : "no") + "\"><td class=\"" + tone(f) + "\">" + sign(f) +
         html_escaped(status_text(f)) + "</td>" + name_cell(f.key, f.metric) +
         cell(value_text(f) == "see below" ? "" : value_text(f), "worst value") + cell(limit_text(f), "limit") +
         cell(worst_text(f), "where") + "<td>" + more(f) + "</td></tr>\n";
}

std::string table(const std::vector<const Finding*>& findings) {
  if (findings.empty()) return "";
  std::string rows;
  for (std::size_t i = 0; i < std::min(findings.size(), max_findings); ++i) rows += row(*findings[i]);
  return "<div class=\"wide\" tabindex=\"0\"><table class=\"stack\">" +
         heads({"status", "finding", "worst value", "limit", "where", "detail"}) + "<tbody>" + rows +
         "</tbody></table></div>" +
         (findings.size() > max_findings
              ? "<p>and " + std::to_string(findings.size() - max_findings) + " more: all are in verdict.json</p>"
              : "");
}

// One fact over those that have it: who has which value.
struct Spread {
  std::map<std::string, std::vector<std::string>> who;  // by value
  std::size_t count = 0;
};
using Facts = std::map<std::string, Spread>;

void add(Facts& facts, const std::string& fact, const std::string& value, const std::string& who) {
  Spread& spread = facts[fact];
  spread.who[value].push_back(who);
  ++spread.count;
}

Facts facts_of(const Measured& measured) {
  Facts facts;
  for (const auto& [key, benchmark] : measured.benchmarks) {
    if (family_of(key) != "preflight" || benchmark.rows.empty()) continue;
    const Row& last = *benchmark.rows.back();
    const std::string about(key_part(key, "of"));
    const auto who = [&](std::size_t rank) {
      const RankFacts& r = benchmark.context->ranks[rank];
      return is_of_host(key) ? r.host : "rank " + std::to_string(r.rank) + " on " + r.host;
    };
    for (const auto& [name, values] : last.text_by_rank) {
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (values[rank]) add(facts, about + " " + name, *values[rank], who(rank));
      }
    }
    for (const auto& [name, values] : last.by_rank) {
      if (last.text_by_rank.contains(name)) continue;  // the text explains the number
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (values[rank]) add(facts, about + " " + name, number_text(*values[rank]), who(rank));
      }
    }
  }
  return facts;
}

std::string named(const std::vector<std::string>& who) {
  std::vector<std::string> first(who.begin(),
                                 who.begin() + static_cast<std::ptrdiff_t>(std::min(who.size(), max_shown)));
  return joined(first) + (who.size() > max_shown ? " and " + std::to_string(who.size() - max_shown) + " more" : "");
}

// "580.159 on 15, 570.86 on node7": what most have without names, the others by name.
std::string spread_text(const Spread& spread) {
  std::vector<std::pair<std::string, std::vector<std::string>>> values(spread.who.begin(), spread.who.end());
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  if (2 * values.size() > spread.count && spread.count > 2) {
    return fmt::format("{} values of {}: {}, {}, ...", values.size(), spread.count, values[0].first, values[1].first);
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(values.size(), max_shown); ++i) {
    const auto& [value, who] = values[i];
    parts.push_back(value + (i == 0 && who.size() > 1 ? " on " + std::to_string(who.size()) : " on " + named(who)));
  }
  return joined(parts, "; ") + (values.size() > max_shown ? "; ..." : "");
}

std::string two_columns(const std::string& first, const std::string& second,
                        const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return "";
  std::string out;
  for (const auto& [name, value] : rows) {
    out += "<tr><th scope=\"row\">" + html_escaped(name) + "</th>" + cell(value) + "</tr>";
  }
  return "<div class=\"wide\" tabindex=\"0\"><table class=\"tight\">" + heads({first, second}) + "<tbody>" + out +
         "</tbody></table></div>";
}

std::string gpus_table(const Context& context) {
  std::string rows;
  for (std::size_t i = 0; i < std::min(context.ranks.size(), max_ranks); ++i) {
    const RankFacts& r = context.ranks[i];
    rows += "<tr><th scope=\"row\">" + std::to_string(r.rank) + "</th>" + cell(r.host, "host") +
            cell(std::to_string(r.local_rank), "GPU") + cell(r.device, "device") +
            cell(r.uuid.value_or("unknown"), "UUID") + cell(r.pci.value_or("unknown"), "PCI") +
            cell(r.serial.value_or("unknown"), "serial") + "</tr>";
  }
  if (context.ranks.size() > max_ranks) {
    rows += "<tr><td colspan=\"7\">and " + std::to_string(context.ranks.size() - max_ranks) + " more</td></tr>";
  }
  return "<div class=\"wide\" tabindex=\"0\"><table class=\"tight stack\">" +
         heads({"rank", "host", "GPU", "device", "UUID", "PCI", "serial"}) + "<tbody>" + rows +
         "</tbody></table></div>";
}

std::string hosts_table(const Page& page) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const NodeDecision& node : page.nodes.nodes) {
    if (rows.size() == max_hosts) break;
    rows.emplace_back(node.host, plural(node.ranks, "rank") + ", " + std::string(name(node.state)) +
                                     (node.reasons.empty() ? "" : ": " + node.reasons.front()));
  }
  const std::size_t left = page.nodes.nodes.size() - rows.size();
  if (left > 0) rows.emplace_back("and " + std::to_string(left) + " more", "");
  return two_columns("host", "what becomes of it", rows);
}

// Its temperature, and by how much it stands off.
std::string standing(const FleetLine& line) {
  std::vector<std::string> words;
  if (line.slow) words.push_back(percent_text(-line.faster) + " slower");
  if (line.hot) words.push_back(fmt::format("{:.0f} C hotter", line.hotter_c.value_or(0)));
  return words.empty() ? "" : joined(words) + " than the others";
}

std::string parts_table(const std::vector<FleetLine>& lines) {
  std::string rows;
  for (const FleetLine& line : lines) {
    const std::string off = standing(line);
    rows += "<tr><th scope=\"row\">" + html_escaped(group_text(line)) + "</th>" + cell(line.name, "class") +
            cell(std::to_string(line.gpus), "GPUs") + cell(signed_percent(line.median), "median") +
            cell(signed_percent(line.p1), "1 %") + cell(signed_percent(line.p99), "99 %") +
            cell(line.temperature_c ? number_text(std::round(*line.temperature_c)) + " C" : "", "temperature") +
            (off.empty() ? cell("") : "<td class=\"is-doubt\">" + html_escaped("stands off: " + off) + "</td>") +
            "</tr>";
  }
  return rows.empty()
             ? ""
             : "<div class=\"wide\" tabindex=\"0\"><table class=\"tight stack\">" +
                   heads({"of the fleet", "class", "GPUs", "median", "1 %", "99 %", "temperature", "who stands off"}) +
                   "<tbody>" + rows + "</tbody></table></div>";
}

std::string levels_table(const std::vector<FleetLevel>& levels) {
  std::string rows;
  for (const FleetLevel& level : levels) {
    rows += "<tr><th scope=\"row\">" + html_escaped(joined_words(level.name, level.metric)) + "</th>" +
            cell(std::to_string(level.rows), "rows") + cell(signed_percent(level.better), "usual") +
            cell(level.reference ? "reference" : "limits", "against") + "</tr>";
  }
  return rows.empty() ? ""
                      : "<div class=\"wide\" tabindex=\"0\"><table class=\"tight stack\">" +
                            heads({"class", "rows", "usual", "against"}) + "<tbody>" + rows + "</tbody></table></div>";
}

}  // namespace

// In words what stands off, and on request every part: who has few GPUs has few parts.
std::string fleet_section(const Page& page) {
  const FleetLines& fleet = page.verdict.fleet;
  const auto off = standing_off_text(page.verdict);
  std::string words;
  for (const std::string& text : levels_text(page.verdict)) words += "<li>" + html_escaped(sentence(text)) + "</li>";
  for (std::size_t i = 0; i < std::min(off.size(), max_shown); ++i)
    words += "<li>" + html_escaped(sentence(off[i])) + "</li>";
  if (off.size() > max_shown) words += "<li>And " + std::to_string(off.size() - max_shown) + " more outliers</li>";
  if (!fleet.lines.empty() && off.empty()) words += "<li>No rack, leaf, firmware, driver or host is an outlier</li>";
  std::vector<FleetLine> standing_off;
  std::copy_if(fleet.lines.begin(), fleet.lines.end(), std::back_inserter(standing_off),
               [](const FleetLine& line) { return line.slow || line.hot; });
  return section(
      "fleet", "The fleet as a whole",
      "The usual values compared with the profile, and the parts of the fleet compared with each other: how much "
      "faster their GPUs are than the median of all. For information.",
      words.empty()
          ? ""
          : "<ul>" + words + "</ul>" + parts_table(standing_off) +
                folded(plural(fleet.lines.size(), "part") + " of the fleet, by class", parts_table(fleet.lines)) +
                folded("what is usual, by class", levels_table(fleet.levels)));
}

std::string findings_section(const Page& page) {
  std::vector<const Finding*> bad, warnings, good;
  for (const Finding& f : page.verdict.findings) (f.good() ? good : f.counts() ? bad : warnings).push_back(&f);
  std::string open;
  {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const Unjudged& point : page.verdict.unjudged) {
      if (rows.size() == max_findings) break;
      rows.emplace_back(joined_words(point.key, point.metric),
                        point.value ? quantity_text(*point.value, unit_of(point.metric)) : point.detail);
    }
    open = folded(unjudged_text(page.verdict), two_columns("measured", "value", rows));
  }
  std::string said;
  for (const Summary& spoken : page.verdict.summaries) {
    said += "<li>" + html_escaped(std::string(name(spoken.by)) + ": " + spoken.text) + "</li>";
  }
  const std::string filter =
      "<div class=\"filter\" id=\"filter\" hidden><label>Find <input type=\"search\" id=\"find\" "
      "placeholder=\"gemm bf16, or a host\"></label><label><input type=\"checkbox\" id=\"only-bad\"> only what is not "
      "good</label><span class=\"soft\" id=\"shown\" role=\"status\"></span></div>";
  bad.insert(bad.end(), warnings.begin(), warnings.end());
  return section("findings", "All findings", "",
                 (said.empty() ? "" : "<ul>" + said + "</ul>") + filter + table(bad) +
                     folded(plural(good.size(), "good finding"), table(good)) + open);
}

std::string scaling_section(const Page& page) {
  std::string rows;
  for (const ScalingPoint& point : page.verdict.scaling) {
    rows += "<tr>" + cell(joined_words(point.key, point.metric)) + cell(std::to_string(point.hosts), "nodes") +
            cell(std::to_string(point.ranks), "ranks") +
            cell(quantity_text(point.value, unit_of(point.metric)), "value") +
            cell(efficiency_text(point), "efficiency") + cell(point.limited_by, "limited by") + "</tr>";
  }
  if (rows.empty()) return "";
  return section(
      "scaling", "Scaling",
      "The rate that each GPU keeps with more nodes, or more ranks of one. For a training step efficiency is the "
      "slowest "
      "rank's tokens per second over the same on one node; of AllReduce its bus bandwidth over the lesser of "
      "one node's and of what the NICs allow.",
      "<table class=\"stack\">" + heads({"benchmark", "nodes", "ranks", "value", "efficiency", "limited by"}) +
          "<tbody>" + rows + "</tbody></table>");
}

std::string facts_section(const Page& page) {
  if (page.context == nullptr) return section("facts", "Hosts", "", hosts_table(page));
  std::vector<std::pair<std::string, std::string>> differ, same;
  for (const auto& [fact, spread] : facts_of(*page.judged.measured)) {
    if (spread.who.size() > 1) {
      differ.emplace_back(fact, spread_text(spread));
    } else {
      same.emplace_back(fact, spread.who.begin()->first);
    }
  }
  return section(
      "facts", "Facts of the hosts", "",
      hosts_table(page) +
          folded(plural(differ.size(), "fact") + " that differ between hosts or GPUs",
                 two_columns("fact", "who has what", differ)) +
          folded(plural(same.size(), "fact") + " that are the same everywhere", two_columns("fact", "value", same)) +
          folded(plural(page.context->ranks.size(), "GPU") + " with UUID and address", gpus_table(*page.context)));
}

std::string reproduce_section(const Page& page) {
  const Verdict& v = page.verdict;
  std::string out;
  std::set<std::string> families;
  for (const Finding& f : v.findings) {
    const std::string family = family_of(f.key);
    if (family != "machine") families.insert(family);
  }
  std::string commands = "ci/accept\n";
  for (const std::string& family : families) commands += measure_command(family, v.ranks) + "\n";
  out += "<p>All of it, or one family:</p><pre>" + html_escaped(commands) + "</pre>";
  if (page.context == nullptr) {
    return section("again", "How to reproduce it", "This page was made of a stored verdict, which has no figures.",
                   out);
  }
  const Context& c = *page.context;
  std::vector<std::pair<std::string, std::string>> rows;
  rows.emplace_back("Shakedown", c.suite.version + ", " + (c.suite.git.empty() ? "unknown commit" : c.suite.git) +
                                     (c.suite.dirty ? " with changes" : "") + ", " + c.suite.build_type);
  for (const auto& [name, version] : c.versions) rows.emplace_back(name, version.value_or("unknown"));
  for (const auto& [name, value] : c.environment) rows.emplace_back(name, value);
  for (const Results& file : page.judged.measured->files) {
    rows.emplace_back(file.file.filename().string(), joined(file.context.argv, " "));
  }
  if (rows.size() > max_findings) rows.resize(max_findings);
  return section("again", "How to reproduce it", "",
                 out + folded("versions, settings and command lines of the run", two_columns("what", "value", rows)));
}

}  // namespace shakedown
