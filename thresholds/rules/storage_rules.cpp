#include "thresholds/rules/storage_rules.hpp"

#include <string>
#include <utility>

namespace shakedown {

namespace {

constexpr double max_visible_s = 1;

}  // namespace

std::vector<Rule> rules_of_storage(const StorageFloors& floors, const Measured& measured) {
  std::vector<Rule> rules;
  for (const auto& [key, benchmark] : measured.benchmarks) {
    if (key.family() != "storage") continue;
    Rule rule;
    rule.benchmark = key;
    rule.may_waive = true;  // no folder was named, or there is one rank
    const std::string op(key.part("op"));
    if (op == "visible") {
      rule.metric = "slowest_visible_s";
      rule.every = Every::rank;
      rule.limits.max = max_visible_s;
      rule.source = "NVIDIA's requirements of AI clouds 2.3: another node sees a file within 1 s";
      rules.push_back(std::move(rule));
      continue;
    }
    const auto floor = floors.by_metric.find(op + "_gb_per_s");
    if (floor == floors.by_metric.end()) continue;
    rule.metric = floor->first;
    rule.every = Every::host;
    rule.limits.min = floor->second;
    rule.source = floors.source;
    rule.at = floors.at;
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace shakedown
