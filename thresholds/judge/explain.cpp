// Explains a judgement (--explain=KEY): the rules of the key, whether they apply, the measured values, and the result.
#include <algorithm>
#include <sstream>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/applicability.hpp"

namespace shakedown {
namespace {

std::string limits_text(const Rule& rule) {
  std::string words;
  const auto add = [&](const char* name, const std::optional<double>& limit) {
    if (limit) words += (words.empty() ? "" : ", ") + std::string(name) + " " + number_text(*limit);
  };
  add("min", rule.limits.min);
  add("max", rule.limits.max);
  add("equals", rule.limits.equals);
  add("spread_max", rule.limits.spread_max);
  add("cv_max", rule.limits.cv_max);
  add("samples_min", rule.limits.samples_min);
  if (!rule.limits.equals_text.empty()) words += "equals \"" + joined(rule.limits.equals_text, "\" or \"") + "\"";
  if (rule.limits.at_least) words += "at least " + *rule.limits.at_least;
  if (rule.limits.same) words += "the same everywhere";
  return words;
}

bool stands_for(const Rule& rule, const Key& key, const Context& context) {
  const auto keys = expand(rule, context).keys;
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void explain_rule(std::ostream& out, const Profile& profile, const Rule& rule, const Key& key, const Context& context) {
  out << "  " << rule.at << ": " << rule.metric << " of every " << name(rule.every) << ", " << limits_text(rule);
  if (rule.severity != Severity::fail) out << " (" << name(rule.severity) << " only)";
  if (rule.may_waive) out << ", may be waived";
  if (!rule.where.empty()) out << ", where " << rule.where << " is not 0";
  out << "\n    for " << text(rule.conditions) << "\n    source: " << rule.source << "\n";
  if (!rule.replaces.empty()) out << "    replaces " << rule.replaces << "\n";
  if (const auto bound = ceiling(profile.peak, key, rule.metric, scale_of(context))) {
    out << "    physical ceiling: " << number_text(*bound) << " " << unit_of(rule.metric) << "\n";
  }
  const Applicability result = applicability(rule.conditions, context);
  out << "    " << (result.applies == Applies::yes ? "applies" : "does not apply: " + result.reason) << "\n";
}

void explain_ranks(std::ostream& out, const Benchmark& benchmark, const std::string& metric) {
  const auto values = rank_values(benchmark, metric);
  std::vector<Culprit> ranks;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) ranks.push_back(culprit(benchmark.context->ranks[i], values[i]));
  }
  const bool high_first = lower_is_better(metric);
  std::stable_sort(ranks.begin(), ranks.end(), [&](const Culprit& a, const Culprit& b) {
    return high_first ? *a.value > *b.value : *a.value < *b.value;
  });
  if (ranks.size() > 1) out << "    ranks, the worst first:\n";
  for (std::size_t i = 0; i < std::min(ranks.size(), max_offenders); ++i) {
    out << "      " << number_text(*ranks[i].value) << " " << unit_of(metric) << "  " << text(ranks[i]) << "\n";
  }
  if (ranks.size() > max_offenders) out << "      and " << ranks.size() - max_offenders << " more\n";
}

// Returns the value of a fact on each rank that has it: "pcie_width 16, 16, 8", "driver 580.159.03".
void explain_facts(std::ostream& out, const Row& row) {
  const auto show = [&](const std::string& metric, const auto& values, const auto& text_of_value) {
    std::string words;
    for (const auto& value : values) {
      if (value) words += (words.empty() ? " " : ", ") + text_of_value(*value);
    }
    out << "    " << metric << (words.empty() ? " unknown" : words) << "\n";
  };
  for (const auto& [metric, values] : row.by_rank) show(metric, values, number_text);
  for (const auto& [metric, values] : row.text_by_rank)
    show(metric, values, [](const std::string& text) { return text; });
}

/// Prints how the data was checked, and which errors no check of this run can detect.
void explain_checks(std::ostream& out, const Benchmark& benchmark) {
  const Row& row = *benchmark.rows.back();
  if (row.error || row.waived) return;
  const auto ranks = benchmark.context->ranks.size();
  if (const auto series = row.metrics.find("series"); series != row.metrics.end()) {
    out << "  checked: " << number_text(series->second)
        << " operations after the samples had the same bits on each rank; with a probability of 99 %, 44 operations "
           "detect a fault that occurs in one of ten\n";
  }
  const auto least = row.by_rank.find("least_error_found");
  const auto known = [](const auto& value) { return value.has_value(); };
  if (least == row.by_rank.end()) return;
  const auto value = std::find_if(least->second.begin(), least->second.end(), known);
  if (value == least->second.end()) return;
  out << "  checked: all elements by Freivalds' sums, which detect an error of one element from " << number_text(**value)
      << " standard deviations of an element on; smaller errors are detected "
      << (ranks == 1   ? "only if the bits change between operations: one rank has no vote"
          : ranks == 2 ? "by a comparison of the two ranks, which names neither"
                       : "by the vote of the ranks")
      << "\n";
}

void explain_benchmark(std::ostream& out, const Benchmark& benchmark) {
  out << "measured:\n";
  for (const Row* row : benchmark.rows) {
    out << "  repetition " << row->repetition << ":";
    if (row->error) out << " error: " << *row->error;
    if (row->waived) out << " waived: " << *row->waived;
    for (const auto& [metric, value] : row->metrics) out << " " << metric << " " << number_text(value);
    out << "\n";
    if (row->key.family() == "preflight") explain_facts(out, *row);
  }
  explain_checks(out, benchmark);
  const std::string metric = headline_metric(benchmark);
  if (metric.empty()) return;
  if (const auto value = run_value(benchmark, metric)) {
    out << "  median of " << metric << " over " << benchmark.rows.size()
        << (benchmark.rows.size() == 1 ? " repetition: " : " repetitions: ") << number_text(*value) << " "
        << unit_of(metric) << "\n";
  }
  explain_ranks(out, benchmark, metric);
}

void explain_finding(std::ostream& out, const Finding& finding) {
  out << "  " << name(finding.status);
  if (!finding.metric.empty()) out << ": " << finding.metric;
  if (finding.value) out << " " << number_text(*finding.value);
  if (finding.limit) out << " against " << name(finding.limit->kind) << " " << number_text(finding.limit->value);
  if (!finding.unit.empty()) out << " " << finding.unit;
  if (finding.worst) out << ", " << text(*finding.worst);
  if (!finding.detail.empty()) out << "; " << finding.detail;
  if (!finding.rule_at.empty()) out << " (" << finding.rule_at << ")";
  out << "\n";
  if (!finding.next.empty()) out << "  next: " << finding.next << "\n";
}

}  // namespace

std::string explain(const Measured& run, const std::vector<Profile>& profiles, const Verdict& verdict,
                    const std::string& asked) {
  const Key key(asked);
  const Benchmarks& benchmarks = run.benchmarks;
  const auto measured = benchmarks.find(key);
  const Context& context = measured == benchmarks.end() ? run.files.front().context : *measured->second.context;
  const Selection selection = select_profile(run.files, profiles);
  std::ostringstream rules, findings, out;
  if (selection.profile != nullptr) {
    for (const Rule& rule : selection.profile->rules) {
      if (stands_for(rule, key, context)) explain_rule(rules, *selection.profile, rule, key, context);
    }
  }
  for (const Finding& finding : verdict.findings) {
    if (finding.key == key) explain_finding(findings, finding);
  }
  if (measured == benchmarks.end() && rules.str().empty() && findings.str().empty()) {
    throw InputError("--explain=" + asked + ": not measured, and without a rule; report --all lists the keys");
  }
  out << key << "\n";
  if (measured != benchmarks.end()) explain_benchmark(out, measured->second);
  if (selection.profile == nullptr) out << "rules: none: " << selection.reason << "\n";
  if (!rules.str().empty()) out << "rules of " << selection.profile->name << ":\n" << rules.str();
  out << "judged:\n" << (findings.str().empty() ? "  no rule: shown, but not judged\n" : findings.str());
  return out.str();
}

}  // namespace shakedown
