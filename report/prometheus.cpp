// Selects names and units of the gauges, which follow https://prometheus.io/docs/practices/naming.
#include "report/prometheus.hpp"

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "base/utc.hpp"
#include "report/gauges.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

struct BaseUnit {
  const char* unit;  // as unit_of returns it
  const char* name;  // last words of the name of the gauge
  double factor;
};

constexpr std::array base_units{BaseUnit{"TFLOPS", "flops_per_second", 1e12},
                                BaseUnit{"GB/s", "bytes_per_second", 1e9},
                                BaseUnit{"us", "seconds", 1e-6},
                                BaseUnit{"ms", "seconds", 1e-3},
                                BaseUnit{"s", "seconds", 1},
                                BaseUnit{"GB", "bytes", 1e9},
                                BaseUnit{"tokens/s", "tokens_per_second", 1}};

// Returns the base unit. The numbers of metrics without a unit (ranks, samples, cv) are not converted.
BaseUnit base_of(const std::string& unit) {
  for (const BaseUnit& base : base_units) {
    if (unit == base.unit) return base;
  }
  return {"", "number", 1};
}

Labels labels_of(const Culprit& place) {
  return {{"host", place.host},
          {"gpu", place.local_rank ? std::to_string(*place.local_rank) : ""},
          {"uuid", place.uuid.value_or("")}};
}

// Adds the culprits, and the nodes that the failing findings name.
void add_culprits(Gauges& gauges, const Verdict& verdict) {
  for (const Diagnosis& d : verdict.culprits) {
    for (const Culprit& place : d.places) {
      Labels labels = labels_of(place);
      labels.emplace_back("cause", causes_text(d));
      gauges.add("shakedown_culprit", "The part at fault: 1 if it fails the run, 0 if it is a warning.", labels,
                 d.fails ? 1 : 0);
    }
  }
  for (const Finding& finding : verdict.findings) {
    if (finding.good() || !finding.counts()) continue;
    for (const Culprit& place : finding.offenders) {
      Labels labels = labels_of(place);
      labels.emplace_back("key", finding.key);
      labels.emplace_back("metric", finding.metric);
      gauges.add("shakedown_offender",
                 "A GPU, link or host that a failing finding names, at most ten for each finding.", labels, 1);
    }
  }
}

}  // namespace

std::string prometheus_text(const Verdict& verdict) {
  Gauges gauges;
  const bool passed = verdict.state == State::pass;
  gauges.add("shakedown_pass", "1 if the verdict is PASS.", {{"profile", verdict.profile}}, passed ? 1 : 0);
  for (const std::string_view state : words(State{})) {
    gauges.add("shakedown_verdict", "1 for the verdict of the run, 0 for all other verdicts.",
               {{"verdict", lower(state)}}, state == name(verdict.state) ? 1 : 0);
  }
  if (const auto began = seconds_of(verdict.started)) {
    gauges.add("shakedown_run_timestamp_seconds", "Start time of the run.", {}, *began);
  }
  gauges.add("shakedown_headline_info", "The verdict in one sentence.", {{"headline", text(headline_of(verdict))}}, 1);
  add_culprits(gauges, verdict);
  gauges.add("shakedown_ranks", "Number of ranks that measured.", {}, verdict.ranks);
  gauges.add("shakedown_hosts", "Number of hosts that measured.", {}, verdict.hosts);
  std::map<Status, int> counts;
  for (const Status status : {Status::pass, Status::fail, Status::missing, Status::waived, Status::invalid,
                              Status::inconclusive, Status::no_reference}) {
    counts[status] = 0;
  }
  for (const Finding& finding : verdict.findings) {
    if (finding.counts()) ++counts[finding.status];
  }
  for (const auto& [status, count] : counts) {
    gauges.add("shakedown_findings", "Number of findings that affect the verdict, by status.",
               {{"status", std::string(name(status))}}, count);
  }
  for (const Finding& finding : verdict.findings) {
    const BaseUnit base = base_of(finding.unit);
    Labels labels{{"key", finding.key}, {"metric", finding.metric}};
    const std::string limit_name(finding.limit ? name(finding.limit->kind) : "");
    gauges.add("shakedown_good", "1 if the finding is good.",
               {{"key", finding.key},
                {"metric", finding.metric},
                {"severity", std::string(name(finding.severity))},
                {"limit", limit_name}},
               finding.good() ? 1 : 0);
    if (finding.judgement != Judgement::rule) labels.emplace_back("judgement", std::string(name(finding.judgement)));
    if (finding.value) {
      gauges.add(std::string("shakedown_value_") + base.name, "Judged value of the worst rank, or of the whole run.",
                 labels, *finding.value * base.factor);
    }
    if (!finding.limit) continue;
    labels.emplace_back("limit", limit_name);
    labels.emplace_back("severity", std::string(name(finding.severity)));
    gauges.add(std::string("shakedown_limit_") + base.name, "Limit of the value.", labels,
               finding.limit->value * base.factor);
  }
  for (const Unjudged& point : verdict.unjudged) {
    if (!point.value) continue;
    const BaseUnit base = base_of(unit_of(point.metric));
    gauges.add(std::string("shakedown_value_") + base.name, "Judged value of the worst rank, or of the whole run.",
               {{"key", point.key}, {"metric", point.metric}}, *point.value * base.factor);
  }
  return gauges.text();
}

}  // namespace shakedown
