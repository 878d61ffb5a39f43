#include "tests/mutation/exemptions.hpp"

#include <algorithm>
#include <regex>
#include <string_view>

#include "base/files.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown::mutation {
namespace {

bool matches(const std::string& pattern, const std::string& key) {
  std::string expression;
  for (const char c : pattern) {
    if (c == '*') {
      expression += ".*";
      continue;
    }
    if (std::string_view("+.[](){}^$|?").find(c) != std::string_view::npos) expression += '\\';
    expression += c;
  }
  return std::regex_match(key, std::regex(expression));
}

/// Returns why the catalogue allows a wrong or missing value; empty if it does not.
std::string_view reason_of_figure(const std::string& key, const std::string& metric, Kind kind) {
  const Metric* const known = metric.empty() ? nullptr : find_metric(Key(key), metric);
  if (known == nullptr) return "";
  return kind == Kind::non_finite ? known->may_lack : known->harmless;
}

bool falsifies(Kind kind) { return kind == Kind::non_finite || kind == Kind::zero || kind == Kind::huge; }

}  // namespace

std::vector<Listed> read_listed(const std::filesystem::path& document) {
  std::vector<Listed> listed;
  const std::regex row("\\| `([^`]+)` \\| (.+) \\|");
  bool here = false;
  for (const std::string& line : lines_of(document).value_or(std::vector<std::string>{})) {
    if (line.starts_with("#")) here = line.find("Rows that a verdict may ignore") != std::string::npos;
    std::smatch cells;
    if (here && std::regex_match(line, cells, row)) listed.push_back({cells[1], cells[2]});
  }
  return listed;
}

Exemptions::Exemptions(const std::vector<Profile>& profiles, std::vector<Listed> listed) : listed_(std::move(listed)) {
  for (const Profile& profile : profiles) {
    for (const Rule& rule : profile.rules) rules_.push_back(&rule);
  }
}

const Rule* Exemptions::rule_of(const Finding& finding) const {
  const auto found =
      std::find_if(rules_.begin(), rules_.end(), [&](const Rule* rule) { return rule->at == finding.rule_at; });
  return found == rules_.end() ? nullptr : *found;
}

std::optional<std::string> Exemptions::reason(const Verdict& healthy, const std::string& key, const std::string& metric,
                                              Kind kind) const {
  if (const auto why = reason_of_figure(key, metric, kind); !why.empty()) return metric + ": " + std::string(why);
  std::string why = "no rule judges it";
  for (const Finding& finding : healthy.findings) {
    if (finding.key != key || !finding.counts()) continue;
    const Rule* const rule = rule_of(finding);
    if (rule == nullptr) return std::nullopt;
    const bool of_other_figure = falsifies(kind) && rule->metric != metric;
    if (of_other_figure) continue;
    if (falsifies(kind) && family_of(key) == "preflight") {
      why = "a fact that keeps its limit contradicts nothing";
    } else if (kind == Kind::waived && rule->may_waive) {
      why = "its rule lets it be waived";
    } else if (kind == Kind::removed && rule->optional != Optional::never) {
      why = "its rule is optional";
    } else {
      return std::nullopt;
    }
  }
  const auto row =
      std::find_if(listed_.begin(), listed_.end(), [&](const Listed& one) { return matches(one.rows, key); });
  if (row == listed_.end()) return std::nullopt;
  return row->rows + ": " + row->reason + " (" + why + ")";
}

}  // namespace shakedown::mutation
