#include "report/again.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/files.hpp"
#include "base/host_list.hpp"
#include "base/text.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/catalogue/key_names.hpp"

namespace shakedown {
namespace {

bool is_bad(const Finding& finding) { return !finding.good() && finding.counts(); }

// A finding that had no reference still has none after a second measurement.
bool can_change(const Finding& finding) { return is_bad(finding) && finding.status != Status::no_reference; }

// GPU errors, crashes, and rows that pre-flight prevented can occur in any family.
bool is_of_any_family(const Finding& finding) {
  constexpr std::array codes{Code::errors, Code::slowdown, Code::memory, Code::crashed, Code::complete};
  return std::find(codes.begin(), codes.end(), finding.code) != codes.end() || finding.key == "machine/preflight";
}

// Returns the families that a figure is compared with (thresholds/rules/crosscheck.cpp).
std::vector<std::string> compared_with(const Finding& finding) {
  if (finding.judgement != Judgement::crosscheck) return {};
  if (finding.code == Code::reference_gpus) return {"gemm"};
  if (finding.key.family() == "allreduce") return {"p2p"};
  if (finding.key.family() == "lora_step") return {"gemm", "allreduce"};
  return {};
}

// Returns the finding of the later run about the same fact; null if that fact is good now.
const Finding* successor(const Finding& before, const Verdict& after) {
  const Finding* found = nullptr;
  for (const Finding& finding : after.findings) {
    if (finding.key != before.key || finding.metric != before.metric) continue;
    const bool is_same = finding.judgement == before.judgement && finding.code == before.code;
    if (is_same || found == nullptr || (is_bad(finding) && !is_bad(*found))) found = &finding;
    if (is_same && is_bad(finding)) break;
  }
  return found;
}

// True if the later run has all hosts of the earlier one that the finding is about, with as many ranks.
bool has_hosts_of(const Finding& finding, const Verdict& before, const Verdict& after) {
  std::set<std::string> hosts;
  for (const Culprit& offender : finding.offenders) hosts.insert(offender.host);
  if (finding.worst) hosts.insert(finding.worst->host);
  if (hosts.empty()) {
    for (const Node& node : before.nodes) hosts.insert(node.host);
  }
  const auto node_of = [](const Verdict& verdict, const std::string& host) {
    return std::ranges::find_if(verdict.nodes, [&](const Node& node) { return same_host(node.host, host); });
  };
  return std::ranges::all_of(hosts, [&](const std::string& host) {
    const auto earlier = node_of(before, host), later = node_of(after, host);
    if (later == after.nodes.end()) return false;
    return earlier == before.nodes.end() || later->ranks >= earlier->ranks;
  });
}

// True if the later run measured this row on the hosts of the finding, and with the same devices.
bool was_measured(const Finding& finding, const Verdict& before, const Verdict& after) {
  if (!has_hosts_of(finding, before, after)) return false;
  if (finding.code == Code::reference_gpus) return !after.compared_gpus.empty();
  if (finding.key.family() == "machine") return true;
  const auto is_row = [&](const auto& row) { return row.key == finding.key; };
  return (!before.backend || after.backend == before.backend) &&
         (std::any_of(after.unjudged.begin(), after.unjudged.end(), is_row) ||
          std::any_of(after.findings.begin(), after.findings.end(), [&](const Finding& later) {
            return is_row(later) && later.status != Status::missing && later.status != Status::waived;
          }));
}

}  // namespace

std::vector<std::string> families_again(const Verdict& verdict) {
  std::set<std::string> wanted{"preflight"};
  std::size_t bad = 0;
  for (const Finding& finding : verdict.findings) {
    if (!can_change(finding)) continue;
    ++bad;
    if (is_of_any_family(finding)) return verdict.asked.names;
    wanted.insert(finding.key.family());
    for (const std::string& family : compared_with(finding)) wanted.insert(family);
  }
  if (bad == 0) {
    throw InputError("--again: nothing failed in that run (" + verdict_line(verdict) +
                     "); name another with --again=RUN");
  }
  std::vector<std::string> families;
  for (const FamilyRow& row : family_rows()) {
    if (wanted.contains(std::string(row.name))) families.emplace_back(row.name);
  }
  return families;
}

std::string again_text(const std::string& run, const Verdict& before, const Verdict& after, TerminalStyle style) {
  constexpr std::size_t max_rows = 20;
  Table table({{"failed in " + run}, {"where"}, {"before"}, {"after"}, {"now"}});
  std::size_t bad = 0, mended = 0;
  std::set<std::vector<std::string>> rows;  // a figure may have failed by its limit and by its peers
  for (const Finding& finding : before.findings) {
    if (!can_change(finding)) continue;
    const bool is_measured = was_measured(finding, before, after);
    const Finding* const next = is_measured ? successor(finding, after) : nullptr;
    const bool is_good = is_measured && (next == nullptr || !is_bad(*next));
    ++bad;
    mended += is_good ? 1 : 0;
    const std::string name = name_text(finding.key);
    const std::vector<std::string> row{name.empty() ? joined_words(finding.key, finding.metric) : name,
                                       worst_text(finding), value_text(finding),
                                       next != nullptr ? value_text(*next) : "-",
                                       next != nullptr ? status_text(*next)
                                       : is_good       ? "pass"
                                                       : "not measured"};
    if (!rows.insert(row).second || (rows.size() > max_rows && !style.all)) continue;
    table.add({{row[0]}, {row[1]}, {row[2]}, {row[3]}, {row[4], is_good ? Table::Tone::good : Table::Tone::bad}});
  }
  std::string text = table.text(style.table());
  if (rows.size() > max_rows && !style.all)
    text += "and " + std::to_string(rows.size() - max_rows) + " more: --all lists them\n";
  return text + "again: of " + plural(bad, "finding") + " that failed, " + std::to_string(mended) +
         (mended == 1 ? " is" : " are") + " good now\n\n";
}

}  // namespace shakedown
