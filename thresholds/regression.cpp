// Decides what became slower than the baseline, and which sets may be compared at all: another driver, tuning or number
// of ranks is another measurement. Fails closed: an error, or nothing that can be compared, is never "no regression".
// Tested by tests/regression_test.cpp (build/tests/regression_test).
#include "thresholds/regression.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "thresholds/applicability.hpp"
#include "thresholds/evidence.hpp"
#include "thresholds/thresholds.hpp"

namespace shakedown {
namespace {

using Facts = std::map<std::string, std::set<std::string>>;  // field -> all values that the files of a set have

// Variables that are recorded beside the tuning, but say where a run took place and not how: which GPUs of a kind, in
// how large an allocation, with which log. Devices, ranks and hosts are compared themselves.
constexpr std::array places{"CUDA_VISIBLE_DEVICES", "SLURM_JOB_NUM_NODES", "NCCL_DEBUG_FILE"};

void add_variables(std::set<std::string>& variables, const std::vector<Results>& results) {
  for (const Results& file : results) {
    for (const auto& [variable, value] : file.context.environment) {
      if (std::find(places.begin(), places.end(), variable) == places.end()) variables.insert(variable);
    }
  }
}

// A version or state that one family did not need and so did not record says nothing about the set.
void add_known(Facts& facts, const std::map<std::string, std::optional<std::string>>& recorded, const char* name) {
  const auto found = recorded.find(name);
  if (found != recorded.end() && found->second) facts[name].insert(*found->second);
}

Facts facts_of(const std::vector<Results>& results, const std::set<std::string>& variables) {
  Facts facts{{"device", {}}, {"backend", {}},  {"tier", {}}, {"ranks", {}}, {"hosts", {}},     {"driver", {}},
              {"cuda", {}},   {"cublaslt", {}}, {"nccl", {}}, {"nvls", {}},  {"build_type", {}}};
  for (const Results& file : results) {
    const Context& c = file.context;
    for (const RankFacts& rank : c.ranks) facts["device"].insert(rank.device);
    facts["backend"].insert(c.backend);
    facts["tier"].insert(c.tier);
    facts["ranks"].insert(std::to_string(c.world_size));
    facts["hosts"].insert(std::to_string(c.hosts));
    facts["build_type"].insert(c.suite.build_type);
    for (const char* name : {"driver", "cuda", "cublaslt", "nccl"}) add_known(facts, c.versions, name);
    add_known(facts, c.nccl, "nvls");
    for (const std::string& variable : variables) {
      const auto found = c.environment.find(variable);
      facts[variable].insert(found == c.environment.end() ? "unset" : found->second);
    }
  }
  return facts;
}

std::string list(const std::set<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text.empty() ? "unknown" : text;
}

void refuse_different(const std::vector<Results>& current, const std::vector<Results>& baseline) {
  std::set<std::string> variables;
  add_variables(variables, current);
  add_variables(variables, baseline);
  const Facts now = facts_of(current, variables), before = facts_of(baseline, variables);
  for (const auto& [field, values] : now) {
    if (values == before.at(field)) continue;
    throw InputError("cannot compare with the baseline: " + field + " is " + list(values) + ", the baseline has " +
                     list(before.at(field)) + "; store a baseline of this configuration");
  }
}

bool has_error(const std::map<std::string, Benchmark>& set, const std::string& key) {
  const auto found = set.find(key);
  return found != set.end() && found->second.error() != nullptr;
}

const Benchmark* measured(const std::map<std::string, Benchmark>& set, const std::string& key, std::string& why_not) {
  const auto found = set.find(key);
  if (found == set.end()) {
    why_not = "was not measured";
  } else if (const Row* error = found->second.error()) {
    why_not = *error->error;
  } else if (const Row* waiver = found->second.waiver()) {
    why_not = "waived: " + *waiver->waived;
  } else {
    return &found->second;
  }
  return nullptr;
}

Trend trend_of(const std::string& metric, double before, double after, double tolerance) {
  const double gain = lower_is_better(metric) ? before - after : after - before;
  if (metric == "latency_us" && std::abs(gain) < latency_floor_us) return Trend::same;
  if (gain < -tolerance * std::abs(before)) return Trend::worse;
  return gain > tolerance * std::abs(before) ? Trend::better : Trend::same;
}

Change compare(const std::string& key, const Benchmark& before, const Benchmark& after, double tolerance) {
  Change change{key, headline_metric(before), std::nullopt, std::nullopt, std::nullopt, Trend::missing, ""};
  change.before = run_value(before, change.metric);
  change.after = run_value(after, change.metric);
  if (!change.before || !change.after) {
    change.detail = "\"" + change.metric + "\" is missing in a repetition";
    return change;
  }
  if (*change.before != 0) change.percent = 100 * (*change.after - *change.before) / *change.before;
  change.trend = trend_of(change.metric, *change.before, *change.after, tolerance);
  return change;
}

// `before` is nullptr where the baseline has nothing either.
Change missing(const std::string& key, const Benchmark* before, const std::string& why_not) {
  Change change{key, "", std::nullopt, std::nullopt, std::nullopt, Trend::missing, why_not};
  if (before == nullptr) return change;
  change.metric = headline_metric(*before);
  change.before = run_value(*before, change.metric);
  return change;
}

Change added(const std::string& key, const Benchmark& after) {
  const std::string metric = headline_metric(after);
  return {key, metric, std::nullopt, run_value(after, metric), std::nullopt, Trend::added, ""};
}

std::string percent_text(double percent) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.1f %%", percent);
  return text.data();
}

}  // namespace

std::string_view name(Trend trend) {
  switch (trend) {
    case Trend::better: return "better";
    case Trend::same: return "same";
    case Trend::worse: return "worse";
    case Trend::missing: return "missing";
    case Trend::added: return "new";
  }
  return "?";
}

Regression judge_regression(const std::vector<Results>& current, const std::vector<Results>& baseline, double tolerance,
                            bool allow_faults) {
  if (current.empty() || baseline.empty())
    throw InputError("no result files to compare; check --results and --baseline");
  if (!(tolerance >= 0 && tolerance < 1)) throw InputError("--tolerance must be from 0 to below 1, as in 0.05");
  refuse_faults(current, allow_faults);
  refuse_faults(baseline, allow_faults);
  refuse_different(current, baseline);
  const auto before = benchmarks_of(baseline), after = benchmarks_of(current);
  std::set<std::string> keys;
  for (const auto& [key, benchmark] : before) keys.insert(key);
  for (const auto& [key, benchmark] : after) keys.insert(key);
  Regression regression;
  for (const std::string& key : keys) {
    std::string not_before, not_now;
    const Benchmark* old_one = measured(before, key, not_before);
    const Benchmark* new_one = measured(after, key, not_now);
    if (old_one == nullptr && new_one == nullptr && !has_error(after, key)) continue;
    regression.changes.push_back(new_one == nullptr   ? missing(key, old_one, not_now)
                                 : old_one == nullptr ? added(key, *new_one)
                                                      : compare(key, *old_one, *new_one, tolerance));
    const Trend trend = regression.changes.back().trend;
    if (trend == Trend::worse || trend == Trend::missing) regression.exit_code = 1;
    if (trend != Trend::missing && trend != Trend::added) ++regression.compared;
  }
  if (regression.compared == 0 && regression.exit_code == 0) {
    throw InputError("nothing to compare: no benchmark has a value in both sets; check --results and --baseline");
  }
  return regression;
}

std::vector<Finding> findings_of(const Regression& regression, double tolerance, int ranks) {
  std::vector<Finding> findings;
  for (const Change& change : regression.changes) {
    if (change.trend == Trend::added) continue;
    Finding finding;
    finding.key = change.key;
    finding.judgement = Judgement::baseline;
    finding.metric = (change.metric.empty() ? "" : change.metric + "_") + "vs_baseline";
    finding.unit = unit_of(change.metric);
    finding.value = change.after;
    finding.limit_name = lower_is_better(change.metric) ? "max" : "min";
    if (change.before)
      finding.limit = *change.before * (lower_is_better(change.metric) ? 1 + tolerance : 1 - tolerance);
    finding.source = "baseline";
    if (change.before) finding.source.append(" ").append(number_text(*change.before));
    finding.detail = change.detail;
    if (change.percent) finding.detail = percent_text(*change.percent);
    if (change.trend == Trend::worse) finding.status = Status::fail;
    if (change.trend == Trend::missing) finding.status = Status::missing;
    if (!finding.good()) finding.next = measure_command(change.key, ranks);
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace shakedown
