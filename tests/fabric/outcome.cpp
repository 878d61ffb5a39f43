#include "tests/fabric/outcome.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "thresholds/culprits/fabric.hpp"

namespace shakedown::fabric {

namespace {

bool has(const Diagnosis& d, Cause cause) {
  return std::find(d.causes.begin(), d.causes.end(), cause) != d.causes.end();
}

std::set<std::string> hosts_of(const Diagnosis& d) {
  std::set<std::string> hosts;
  for (const auto& place : d.places) hosts.insert(place.host);
  return hosts;
}

/// The text names words, so that "leaf1" is not found in "leaf12".
bool says(const Diagnosis& d, const std::string& words) {
  const auto at = (d.detail + " ").find(words + " ");
  return at != std::string::npos;
}

bool is(const Diagnosis& d, const Fault& f, const Tree& tree) {
  const auto rail = "rail " + std::to_string(f.rail);
  const bool on_rail = says(d, rail) || d.detail.find("rail " + std::to_string(f.rail) + ",") != std::string::npos;
  const auto host = tree.host_name(f.host);
  switch (f.kind) {
    case Fault::Kind::nic: return has(d, Cause::slow_nic) && hosts_of(d) == std::set{host} && on_rail;
    case Fault::Kind::host:
    case Fault::Kind::dead_host: return has(d, Cause::slow_node) && hosts_of(d) == std::set{host};
    case Fault::Kind::leaf:
      return has(d, Cause::slow_leaf) && on_rail && (!tree.topology || says(d, tree.leaf_name(f.leaf)));
    case Fault::Kind::uplink:
      if (!tree.topology) return has(d, Cause::slow_uplink) && on_rail;
      return has(d, Cause::slow_uplink) && on_rail && says(d, tree.leaf_name(f.leaf));
    case Fault::Kind::path:
      return (has(d, Cause::slow_path) || tree.leaves() == 2) && on_rail && says(d, tree.leaf_name(f.leaf)) &&
             says(d, tree.leaf_name(f.other_leaf));
    case Fault::Kind::rail: return has(d, Cause::configuration) && on_rail;
    case Fault::Kind::dead_pair:
    case Fault::Kind::sum:
      return has(d, Cause::slow_path) && hosts_of(d) == std::set{host, tree.host_name(f.other_host)};
  }
  return false;
}

}  // namespace

Outcome judge(const Tree& tree) {
  const Measured measured{measure(tree)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  Outcome outcome;
  for (const auto& fault : tree.faults) {
    const bool found = std::any_of(judgement.suspects.begin(), judgement.suspects.end(),
                                   [&](const Diagnosis& d) { return d.fails && is(d, fault, tree); });
    outcome.named = outcome.named && found;
    outcome.text += "[" + std::string(name(fault.kind)) + " host " + std::to_string(fault.host) + " rail " +
                    std::to_string(fault.rail) + " leaf " + std::to_string(fault.leaf) + "] ";
  }
  for (const auto& d : judgement.suspects) {
    if (!d.fails) continue;
    outcome.text += causes_text(d) + ": " + d.detail + "; ";
    outcome.innocent = outcome.innocent || std::none_of(tree.faults.begin(), tree.faults.end(),
                                                        [&](const Fault& fault) { return is(d, fault, tree); });
  }
  outcome.text += judgement.said;
  return outcome;
}

}  // namespace shakedown::fabric
