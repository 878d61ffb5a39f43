#include "report/rehearsal_outcome.hpp"

#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace shakedown::rehearsal {

namespace {

bool has(const Diagnosis& diagnosis, Cause cause) {
  return std::find(diagnosis.causes.begin(), diagnosis.causes.end(), cause) != diagnosis.causes.end();
}

/// Finds whole words: "leaf1" is not in "leaf12".
bool says(const Diagnosis& diagnosis, const std::string& words) {
  const auto at = diagnosis.detail.find(words);
  const auto end = at + words.size();
  return at != std::string::npos && (end >= diagnosis.detail.size() || std::isdigit(diagnosis.detail[end]) == 0);
}

/// Decides for faults that are not of a single host or GPU.
std::optional<bool> is_of_many(const Fleet& fleet, const Fault& fault, const Diagnosis& diagnosis) {
  const Machine& machine = fleet.machine();
  const auto host = [&](int index) { return machine.hosts[static_cast<std::size_t>(index)]; };
  const bool on_rail = says(diagnosis, fmt::format("rail {}", fault.local));
  const bool says_leaf = !machine.shape.leaves_are_known || says(diagnosis, host(fault.host).leaf);
  const auto are_ends = [&] {
    std::set<std::string> hosts;
    for (const auto& place : diagnosis.places) hosts.insert(place.host);
    return hosts == std::set{host(fault.host).name, host(fault.other).name};
  };
  switch (fault.what) {
    case Weakness::all: return has(diagnosis, Cause::configuration) && diagnosis.places.empty();
    case Weakness::rail: return has(diagnosis, Cause::configuration) && on_rail;
    case Weakness::rail_leaf: return has(diagnosis, Cause::slow_leaf) && on_rail && says_leaf;
    case Weakness::uplink: return has(diagnosis, Cause::slow_uplink) && on_rail && says_leaf;
    case Weakness::path: {
      const bool is_path = has(diagnosis, Cause::slow_path) || machine.uplinks.size() == 2;
      return is_path && on_rail && says_leaf && says(diagnosis, host(fault.other).leaf);
    }
    case Weakness::sum:
    case Weakness::dead_pair: return has(diagnosis, Cause::slow_path) && are_ends();
    default: return std::nullopt;
  }
}

/// A switch is named by its leaf; a host or one of its NICs by the host; a GPU by its rank.
bool is_planted(const Fleet& fleet, const Fault& fault, const Diagnosis& diagnosis, const Culprit& place) {
  const Machine& machine = fleet.machine();
  const Host& host = machine.hosts[static_cast<std::size_t>(fault.host)];
  if (fault.what == Weakness::leaf) {
    const auto of_leaf = [&](const Host& other) { return other.name == place.host && other.leaf == host.leaf; };
    const bool is_of_leaf = std::any_of(machine.hosts.begin(), machine.hosts.end(), of_leaf);
    const bool is_fabric = std::any_of(diagnosis.causes.begin(), diagnosis.causes.end(),
                                       [](Cause cause) { return cause >= Cause::slow_nic; });
    return place.host == host.leaf || (is_fabric && is_of_leaf);
  }
  if (place.host != host.name) return false;
  if (!fault.is_of_gpu()) return true;
  return place.rank == fault.host * machine.shape.gpus + fault.local;
}

}  // namespace

bool names(const Fleet& fleet, const Fault& fault, const Diagnosis& diagnosis) {
  if (const auto found = is_of_many(fleet, fault, diagnosis)) return *found;
  return std::any_of(diagnosis.places.begin(), diagnosis.places.end(),
                     [&](const Culprit& place) { return is_planted(fleet, fault, diagnosis, place); });
}

namespace {

/// True if the finding compares a GPU with its own earlier runs, and fails.
bool is_of_own_record(const Finding& finding) {
  return finding.code == Code::baseline && finding.counts() && !finding.good() && !finding.offenders.empty();
}

/// True if a finding names the GPU: a fact or a counted error is no suspect. A slow link has two ends.
bool is_found(const Fleet& fleet, const Fault& fault, const Verdict& verdict) {
  const int rank = fault.host * fleet.machine().shape.gpus + fault.local;
  const auto names_rank = [&](const Culprit& place) { return place.rank == rank; };
  for (const Finding& finding : verdict.findings) {
    if (is_of_own_record(finding) && std::ranges::any_of(finding.offenders, names_rank)) return true;
  }
  if (fault.what != Weakness::xid && fault.what != Weakness::power) return false;
  return std::any_of(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& finding) {
    return finding.counts() && !finding.good() && finding.offenders.size() == 1 && finding.offenders[0].rank == rank;
  });
}

/// True if a place is on the host of the fault, whatever the part.
bool names_host(const Fleet& fleet, const Fault& fault, const Diagnosis& diagnosis) {
  const std::string& host = fleet.machine().hosts[static_cast<std::size_t>(fault.host)].name;
  return names(fleet, fault, diagnosis) ||
         std::any_of(diagnosis.places.begin(), diagnosis.places.end(),
                     [&](const Culprit& place) { return place.host == host && !place.rank; });
}

}  // namespace

Verdict judge_fleet(const Fleet& fleet, const std::vector<Profile>& profiles,
                    const std::vector<LedgerEvent>* own_runs) {
  JudgeOptions options;
  const Shape& shape = fleet.machine().shape;
  options.expected.ranks = shape.ranks();
  options.expected.hosts = shape.hosts;
  for (const Host& host : fleet.machine().hosts) {
    if (shape.hosts == 1) break;
    options.places.racks[host.name] = host.rack;
    if (shape.leaves_are_known) options.places.leaves[host.name] = host.leaf;
  }
  const Measured measured(fleet.results());
  const Profile* const ours = select_profile(measured.files, profiles).profile;
  References references(ours == nullptr ? profiles : std::vector{on_site(*ours, nullptr, measured)});
  if (own_runs != nullptr) references.own = own_record(*own_runs, measured);
  return judge(measured, references, options);
}

Outcome outcome_of(const Fleet& fleet, const Verdict& verdict) {
  Outcome outcome;
  outcome.state = verdict.state;
  const auto& faults = fleet.order().faults;
  const auto names_any_host = [&](const Diagnosis& diagnosis) {
    return std::any_of(faults.begin(), faults.end(),
                       [&](const Fault& fault) { return names_host(fleet, fault, diagnosis); });
  };
  const auto names_any = [&](const Diagnosis& diagnosis) {
    return std::any_of(faults.begin(), faults.end(),
                       [&](const Fault& fault) { return names(fleet, fault, diagnosis); });
  };
  const auto all_named = [&](bool failing) {
    return !faults.empty() && std::all_of(faults.begin(), faults.end(), [&](const Fault& fault) {
      const auto is_named = [&](const Diagnosis& diagnosis) {
        return (diagnosis.fails || !failing) && names(fleet, fault, diagnosis);
      };
      return std::any_of(verdict.culprits.begin(), verdict.culprits.end(), is_named) || is_found(fleet, fault, verdict);
    });
  };
  outcome.named = all_named(true);
  outcome.located = !faults.empty() && std::all_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    return std::any_of(verdict.culprits.begin(), verdict.culprits.end(), [&](const Diagnosis& diagnosis) {
      return diagnosis.fails && names_host(fleet, fault, diagnosis);
    });
  });
  outcome.hinted = all_named(false);
  const auto fails = [](const Diagnosis& diagnosis) { return diagnosis.fails; };
  bool is_first = std::any_of(verdict.culprits.begin(), verdict.culprits.end(), fails);
  outcome.first = !is_first && outcome.named;
  for (const Diagnosis& diagnosis : verdict.culprits) {
    if (!diagnosis.fails) continue;
    const bool planted = names_any(diagnosis);
    outcome.first = outcome.first || (is_first && planted);
    is_first = false;
    // A path or a link has two ends.
    const bool is_of_gpu =
        std::any_of(faults.begin(), faults.end(), [](const Fault& fault) { return fault.is_of_gpu(); });
    if (!diagnosis.places.empty() &&
        (!names_any_host(diagnosis) || (is_of_gpu && faults.size() == 1 && diagnosis.place_count > 2))) {
      outcome.innocent = true;
    }
  }
  for (const Finding& finding : verdict.findings) {
    if (!is_of_own_record(finding)) continue;
    outcome.innocent = outcome.innocent || std::ranges::none_of(faults, [&](const Fault& fault) {
                         return is_found(fleet, fault, verdict);
                       });
  }
  return outcome;
}

}  // namespace shakedown::rehearsal
