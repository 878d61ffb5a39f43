#include "report/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/findings/order.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_remark_width = 24;

bool is_remark(const Finding& finding) {
  return finding.status == Status::pass && finding.metric.empty() && !finding.detail.empty();
}

// Returns the common beginning of all keys, such as "preflight/of:folder" or "p2p/...". If the keys have no common
// beginning, returns their families.
std::string common_text(const std::vector<std::string>& keys) {
  std::string common = keys.front() + "/";
  std::set<std::string> families;
  for (const std::string& key : keys) {
    const std::string other = key + "/";
    const auto end = std::mismatch(common.begin(), common.end(), other.begin(), other.end()).first;
    common.resize(common.substr(0, static_cast<std::size_t>(end - common.begin())).rfind('/') + 1);
    families.emplace(family_of(key));
  }
  if (common.empty()) return joined(families);
  return common.size() > keys.front().size() ? keys.front() : common + "...";
}

}  // namespace

std::string joined_words(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + " " + b;
}

std::string quantity_text(double value, const std::string& unit) { return joined_words(number_text(value), unit); }

std::string value_text(const Finding& finding) {
  if (finding.value) return quantity_text(*finding.value, finding.unit);
  if (!is_remark(finding)) return "-";
  return finding.detail.size() <= max_remark_width ? finding.detail : "see below";
}

std::string value_text(const std::optional<double>& value, const std::string& metric) {
  return value ? quantity_text(*value, unit_of(metric)) : "-";
}

bool is_long_remark(const Finding& finding) {
  return is_remark(finding) && !finding.value && finding.detail.size() > max_remark_width;
}

std::string limit_text(const Finding& finding) {
  if (!finding.limit) return "-";
  return joined_words(std::string(name(finding.limit->kind)), number_text(finding.limit->value));
}

std::string short_text(Culprit place) {
  constexpr std::size_t digits = 8;
  if (place.uuid) {
    place.uuid = place.uuid->substr(0, place.uuid->find('-') + 1 + digits);
    place.pci.reset();
  }
  return text(place);
}

std::string worst_text(const Finding& finding) {
  if (!finding.worst) return "-";
  const std::string where = short_text(*finding.worst);
  return finding.offender_count > 1 ? where + " +" + std::to_string(finding.offender_count - 1) : where;
}

std::string status_text(const Finding& finding) {
  return std::string(finding.good() || finding.counts() ? name(finding.status) : name(finding.severity));
}

std::string summary_text(const Finding& finding) {
  std::string text = status_text(finding);
  if (finding.value) text += " " + value_text(finding);
  if (finding.limit) text += ", limit " + limit_text(finding);
  if (finding.worst) text += ", " + shakedown::text(*finding.worst);
  return finding.detail.empty() ? text : text + ": " + finding.detail;
}

std::vector<const Finding*> bad_findings(const Verdict& verdict) {
  std::vector<const Finding*> bad;
  for (const Finding& finding : verdict.findings) {
    if (!finding.good()) bad.push_back(&finding);
  }
  sort_worst_first(bad);
  return bad;
}

std::vector<const Finding*> unexplained_findings(const Verdict& verdict) {
  auto bad = bad_findings(verdict);
  std::erase_if(bad, [](const Finding* finding) { return finding->culprit.has_value(); });
  return bad;
}

std::string consequences_text(const Consequences& consequences) {
  const auto& [findings, warnings, worst] = consequences;
  if (worst == nullptr) return "";
  std::string text = "explains " + plural(findings, "finding");
  if (warnings == findings)
    text += findings == 1 ? ", a warning" : ", all warnings";
  else if (warnings > 0)
    text += ", " + plural(warnings, "warning") + " among them";
  return text + "; the worst: " + named_text(worst->key, worst->metric) +
         fmt::format(", {:.1f} % beyond its limit", *percent_off(*worst));
}

std::vector<std::string> waivers_text(const Verdict& verdict) {
  std::vector<std::pair<std::string, std::vector<std::string>>> keys_by_reason;
  for (const Finding& finding : verdict.findings) {
    if (finding.status != Status::waived) continue;
    auto found = std::find_if(keys_by_reason.begin(), keys_by_reason.end(),
                              [&](const auto& entry) { return entry.first == finding.detail; });
    if (found == keys_by_reason.end()) found = keys_by_reason.insert(found, {finding.detail, {}});
    found->second.push_back(finding.key);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, keys] : keys_by_reason) {
    const std::string count = keys.size() > 1 ? " (" + plural(keys.size(), "finding") + ")" : "";
    lines.push_back(common_text(keys) + count + ": " + reason);
  }
  return lines;
}

std::string unjudged_text(const Verdict& verdict) {
  const auto measured = static_cast<std::size_t>(std::count_if(verdict.unjudged.begin(), verdict.unjudged.end(),
                                                               [](const Unjudged& point) { return point.value; }));
  const std::size_t waived = verdict.unjudged.size() - measured;
  if (verdict.unjudged.empty()) return "";
  return plural(measured, "measured value") + (measured == 1 ? " is" : " are") + " judged by no rule" +
         (waived == 0 ? "" : ", " + std::to_string(waived) + (waived == 1 ? " more was waived" : " more were waived"));
}

std::string efficiency_text(const ScalingPoint& point) {
  return point.efficiency ? fmt::format("{:.1f} %", 100 * *point.efficiency) : "-";
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f} %", std::round(1000 * share) / 10 + 0.0);  // never "-0.0 %"
}

std::vector<std::string> levels_text(const Verdict& verdict) {
  std::vector<std::string> texts;
  for (const bool reference : {true, false}) {
    std::map<std::string, const FleetLevel*> widest;  // by family: the level in the unit that most rows have
    for (const FleetLevel& level : verdict.fleet.levels) {
      const FleetLevel*& chosen = widest[family_of(level.name)];
      if (chosen == nullptr || level.rows > chosen->rows) chosen = &level;
    }
    std::vector<std::string> parts;
    for (const auto& [family, level] : widest) {
      if (level->reference == reference) parts.push_back(family + " " + signed_percent(level->better));
    }
    if (parts.empty()) continue;
    texts.push_back((reference ? "median value, against its reference: " : "median value, against its limits: ") +
                    joined(parts));
  }
  return texts;
}

std::vector<std::string> standing_off_text(const Verdict& verdict) {
  struct Part {
    std::size_t gpus = 0;
    std::vector<std::string> slow;
    std::optional<double> hotter;
  };
  std::vector<std::pair<std::string, Part>> parts;  // in the order of the lines
  for (const FleetLine& line : verdict.fleet.lines) {
    if (!line.slow && !line.hot) continue;
    const std::string name = group_text(line);
    auto found = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.first == name; });
    if (found == parts.end()) found = parts.insert(found, {name, {}});
    found->second.gpus = std::max(found->second.gpus, line.gpus);
    if (line.slow) found->second.slow.push_back(percent_text(-line.faster) + " slower in " + line.name);
    found->second.hotter = line.hotter_c;
  }
  std::vector<std::string> texts;
  for (const auto& [name, part] : parts) {
    std::string text = name + " (" + plural(part.gpus, "GPU") + "): " + joined(part.slow, ", ", " and ");
    if (part.hotter && (part.slow.empty() || *part.hotter >= 1)) {
      text += (part.slow.empty() ? "" : ", ") + fmt::format("{:.0f} C hotter", *part.hotter);
    }
    texts.push_back(text + " than the others; a warning");
  }
  return texts;
}

std::vector<std::array<std::string, 4>> step_time_rows(const Verdict& verdict) {
  std::vector<std::array<std::string, 4>> rows;
  for (const StepTimes& times : verdict.step_times) {
    const auto add = [&](std::string of, double ms) {
      const double percent = times.whole_ms > 0 ? 100 * ms / times.whole_ms : 0;
      rows.push_back({rows.empty() || rows.back()[1].starts_with("whole") ? times.key.text() : "", std::move(of),
                      fmt::format("{:.2f}", ms), fmt::format("{:.1f} %", percent)});
    };
    for (std::size_t i = 0; i < times.class_ms.size(); ++i) {
      add(std::string(words(PartClass{})[i]), times.class_ms[i]);
    }
    add("between operations", times.fixed_ms);
    add(fmt::format("whole step of rank {}, {}{:+.1f} % by the profile", times.rank,
                    times.source.empty() ? "" : "timed by " + times.source + ", ", times.cost_percent),
        times.whole_ms);
  }
  return rows;
}

std::string change_text(const Change& change) {
  if (!change.percent) return "-";
  const std::string estimate = fmt::format("{:+.1f} %", *change.percent);
  return change.low && change.high ? estimate + fmt::format(" ({:+.1f} to {:+.1f})", *change.low, *change.high)
                                   : estimate;
}

std::string trend_text(const Change& change) {
  return std::string(name(change.trend)) + (change.detail.empty() ? "" : ": " + change.detail);
}

bool is_quiet(const Change& change) {
  return change.trend == Trend::same || change.trend == Trend::added || change.trend == Trend::noisy;
}

std::string count_text(const Change& change) {
  if (change.before_count == 0 && change.after_count == 0) return "-";
  return std::to_string(change.before_count) + ", " + std::to_string(change.after_count);
}

std::string regression_line(const Regression& regression) {
  const auto count = [&](Trend trend) {
    return std::to_string(std::count_if(regression.changes.begin(), regression.changes.end(),
                                        [&](const Change& change) { return change.trend == trend; }));
  };
  std::string line = "REGRESSION: " + count(Trend::worse) + " worse, " + count(Trend::missing) + " missing, " +
                     count(Trend::inconclusive) + " inconclusive, " + std::to_string(regression.compared) +
                     " compared (minimal effect " + number_text(100 * regression.min_effect) + " %)";
  const auto failed = worst_changes(regression);
  if (failed.empty()) return line;
  const Change& worst = *failed.front();
  line += ": " + joined_words(worst.key, worst.metric) + " ";
  line += worst.trend == Trend::missing ? "is missing" : fmt::format("{:+.1f} %", worst.percent.value_or(0));
  return line + (failed.size() > 1 ? " and " + std::to_string(failed.size() - 1) + " more" : "");
}

std::vector<const Change*> worst_changes(const Regression& regression) {
  std::vector<const Change*> failed;
  for (const Change& change : regression.changes) {
    if (change.trend == Trend::worse || change.trend == Trend::missing) failed.push_back(&change);
  }
  std::stable_sort(failed.begin(), failed.end(), [](const Change* a, const Change* b) {
    const auto loss = [](const Change& c) { return c.trend == Trend::missing ? -1 : std::abs(c.percent.value_or(0)); };
    return loss(*a) > loss(*b);
  });
  return failed;
}

}  // namespace shakedown
