#include "thresholds/ledger/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/culprits/suspects.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/units/peers.hpp"

namespace shakedown {
namespace {

/// Returns "version 0.9.0, plan 6, tier quick, profile h200-sxm, 8 ranks". Runs with the same text can be compared.
std::string kind_of(const Context& context, const Verdict& verdict) {
  return "version " + context.suite.version + ", plan " + std::to_string(context.plan) + ", tier " +
         std::string(name(context.tier)) + ", profile " + verdict.profile + ", " + plural(verdict.ranks, "rank");
}

/// Replaces rank numbers by those that the ranks have in the run of their own node.
void use_local_ranks(Verdict& verdict) {
  const auto change = [](Culprit& place) {
    if (place.rank && place.local_rank) place.rank = place.local_rank;
  };
  for (Diagnosis& d : verdict.culprits) std::for_each(d.places.begin(), d.places.end(), change);
  for (Finding& f : verdict.findings) {
    std::for_each(f.offenders.begin(), f.offenders.end(), change);
    if (f.worst) change(*f.worst);
  }
}

void add_reason(NodeDecision& node, const std::string& reason) {
  if (std::find(node.reasons.begin(), node.reasons.end(), reason) == node.reasons.end()) node.reasons.push_back(reason);
}

/// Makes a good node undecided, for this reason. A bad node stays bad.
void doubt(NodeDecision& node, const std::string& reason, const std::string& next) {
  if (node.state == NodeState::bad) return;
  if (node.state == NodeState::good) node.next = next;
  node.state = NodeState::undecided;
  add_reason(node, reason);
}

/// Returns a measure command for one host. The command of the combined run would name all ranks of the fleet, but no
/// launch has these.
std::string measure_again(const std::string& host, const std::string& family) {
  return "on " + host + ": shakedown accept --families=" + family;
}

/// Concludes a comparison. If there are no findings, the values were compared and no part is bad.
void conclude_comparison(Verdict& verdict) {
  conclude(verdict);
  if (verdict.total == 0) verdict.state = State::pass;
}

/// Returns the GPUs of each host.
std::map<std::string, std::vector<LedgerGpu>> gpus_of(const std::vector<Results>& run) {
  std::map<std::string, std::vector<LedgerGpu>> gpus;
  if (run.empty()) return gpus;
  for (const RankFacts& rank : run.front().context.ranks)
    gpus[rank.host].push_back({rank.local_rank, rank.serial, rank.uuid, rank.device});
  return gpus;
}

/// Marks the GPUs of the node that these failures name.
void accuse(FleetNode& node, const std::vector<Diagnosis>& culprits) {
  for (const Diagnosis& d : culprits) {
    for (const Culprit& place : d.fails ? d.places : std::vector<Culprit>{}) {
      for (LedgerGpu& gpu : node.gpus)
        gpu.accused = gpu.accused || (place.host == node.host && place.local_rank == gpu.slot);
    }
  }
}

bool is_in_doubt(const Finding& finding) { return finding.code == Code::in_doubt && finding.counts(); }

}  // namespace

std::size_t Fleet::count(NodeState state) const {
  return static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [state](const auto& node) { return node.state == state; }));
}

NodeList Fleet::list() const {
  NodeList list;
  list.verdict = state;
  for (const FleetNode& node : nodes) {
    list.nodes.push_back(node);
    if (node.state != NodeState::undecided) continue;
    const std::string why = node.reasons.empty() ? "not judged" : node.reasons.front();
    list.undecided_because.push_back(node.host + ": " + why);
  }
  for (const UnusedRun& out : left_out) {
    if (out.counts()) list.undecided_because.push_back(out.path + ": " + out.why);
  }
  return list;
}

Verdict judge_peers(const Measured& measured, const JudgeOptions& options) {
  Verdict verdict = before_judging(measured.files, options);
  UnitTable table = compare_peers(measured.benchmarks, options.families, difference_of_launches);
  verdict.findings = findings_of(table);
  verdict.summaries.push_back({Judgement::peers, summary(table)});
  verdict.culprits = diagnose(measured.benchmarks, std::move(table), verdict.findings, {});
  auto more = findings_of(verdict.culprits);
  verdict.findings.insert(verdict.findings.end(), more.begin(), more.end());
  use_local_ranks(verdict);
  conclude_comparison(verdict);
  return verdict;
}

FleetNode* FleetJudge::node(const std::string& host) {
  const auto found = index_.find(host);
  return found == index_.end() ? nullptr : &fleet_.nodes[found->second];
}

void FleetJudge::add(const std::vector<Results>& run, const Verdict& verdict, const std::vector<std::string>& hosts,
                     const std::string& path, bool complete, const std::map<std::string, std::string>& newer) {
  const NodeList own = decide_nodes(verdict);
  std::map<std::string, const NodeDecision*> decisions;
  for (const NodeDecision& decision : own.nodes) decisions.emplace(decision.host, &decision);
  const auto gpus = gpus_of(run);
  for (const std::string& host : hosts) {
    const auto decision = decisions.find(host);
    if (decision == decisions.end() || !index_.emplace(host, fleet_.nodes.size()).second) continue;
    FleetNode& node = fleet_.nodes.emplace_back();
    static_cast<NodeDecision&>(node) = *decision->second;
    node.run = path;
    node.started = verdict.started;
    node.profile = verdict.profile;
    node.verdict = verdict.state;
    if (const auto known = gpus.find(host); known != gpus.end()) node.gpus = known->second;
    accuse(node, verdict.culprits);
    if (node.state == NodeState::undecided) {
      add_reason(node, own.undecided_because.front());
      if (node.next.empty()) node.next = headline_of(verdict).fault.next;
    }
    if (const auto later = newer.find(host); later != newer.end())
      doubt(node, "its newest run, " + later->second + ", is incomplete", "measure the node again");
    fleet_.gpus += node.ranks;
    if (!complete) node.not_compared = "its run is incomplete";
    if (verdict.hosts > 1) node.not_compared = "its run has several nodes, which were compared with each other";
  }
  if (!complete || verdict.hosts != 1 || run.empty() || node(verdict.nodes.front().host) == nullptr) return;
  const std::string kind = kind_of(run.front().context, verdict);
  groups_[kind].add(run);
  group_of_[verdict.nodes.front().host] = kind;
}

void FleetJudge::add_absent(const std::string& host, const std::string& why) {
  if (!index_.emplace(host, fleet_.nodes.size()).second) return;
  FleetNode& node = fleet_.nodes.emplace_back();
  node.host = host;
  node.not_compared = why;
  doubt(node, why, "measure it");
}

void FleetJudge::add_unreadable(const UnreadableEvent& event) {
  unreadable_.push_back({event.file, event.why + "; restore the file, or remove it", false, true});
  for (FleetNode& known : fleet_.nodes) {
    if (!event.node.empty() && in_file_name(known.host) == event.node)
      doubt(known, "an event in the ledger, which may be a failure, cannot be read: " + event.file,
            "restore the file, or remove it");
  }
}

void FleetJudge::set_drift(const std::string& host, const OwnDrift& drift) {
  FleetNode* const known = node(host);
  if (known == nullptr) return;
  known->drift = drift;
  if (!drift.is_loss || known->state != NodeState::good) return;
  add_reason(*known, fmt::format("{:.1f} % slower in {} than in {} of its own{}", -drift.percent, drift.family,
                                 plural(drift.runs, "accepted run"), drift.gpu.empty() ? "" : ": GPU " + drift.gpu));
  if (known->action != Action::none) return;
  known->action = Action::monitor;
  known->next = measure_again(host, drift.family);
}

void FleetJudge::set_records(const std::vector<NodeRecord>& records) {
  for (const NodeRecord& record : records) {
    FleetNode* const known = node(record.node);
    if (known == nullptr) continue;
    known->recorded = record.state;
    known->recorded_since = record.since;
  }
}

void FleetJudge::merge(const Verdict& by_peers) {
  Verdict sure = by_peers;
  std::erase_if(sure.findings, is_in_doubt);
  conclude_comparison(sure);
  const NodeList list = decide_nodes(sure);
  for (const NodeDecision& decision : list.nodes) {
    FleetNode* const known = node(decision.host);
    if (known == nullptr) continue;
    for (const auto& reason : decision.reasons) add_reason(*known, reason);
    if (decision.action > known->action) {
      known->action = decision.action;
      known->next = decision.next;
    }
    if (decision.state == NodeState::bad) known->state = NodeState::bad;
    if (decision.state == NodeState::undecided) doubt(*known, list.undecided_because.front(), "");
  }
  for (const Finding& finding : by_peers.findings) {
    if (!is_in_doubt(finding)) continue;
    for (const Culprit& place : finding.offenders) {
      Finding here = finding;
      here.offenders = {place};
      here.offender_count = 1;
      if (FleetNode* const known = node(place.host)) {
        doubt(*known, text(summary_of(here)), measure_again(place.host, finding.key.family()));
      }
    }
  }
  for (FleetNode& each : fleet_.nodes) accuse(each, by_peers.culprits);
  for (const Diagnosis& d : by_peers.culprits) fleet_.culprits.push_back(d);
  for (const Summary& said : by_peers.summaries) fleet_.summaries.push_back(said.text);
}

void FleetJudge::compare(const JudgeOptions& options) {
  std::string largest;
  for (const auto& [kind, group] : groups_) {
    if (largest.empty() || group.runs() > groups_.at(largest).runs()) largest = kind;
  }
  for (auto& [host, kind] : group_of_) {
    if (groups_.at(kind).runs() > 1) continue;
    node(host)->not_compared = groups_.size() == 1 ? "no other node has a complete run"
                                                   : "its run is of " + kind + "; others are of " + largest;
  }
  for (auto& [kind, group] : groups_) {
    if (group.runs() > 1) merge(judge_peers(Measured(std::move(group).results()), options));
  }
}

Fleet FleetJudge::judge(const JudgeOptions& options, std::vector<UnusedRun> left_out) && {
  compare(options);
  fleet_.left_out = std::move(left_out);
  fleet_.left_out.insert(fleet_.left_out.end(), unreadable_.begin(), unreadable_.end());
  const auto order = [](const FleetNode& node) {
    return node.state == NodeState::bad ? 0 : node.state == NodeState::undecided ? 1 : 2;
  };
  std::stable_sort(fleet_.nodes.begin(), fleet_.nodes.end(),
                   [&](const auto& a, const auto& b) { return order(a) < order(b); });
  const bool is_open =
      fleet_.nodes.empty() || fleet_.count(NodeState::undecided) > 0 ||
      std::any_of(fleet_.left_out.begin(), fleet_.left_out.end(), [](const auto& out) { return out.counts(); });
  const bool is_bad = fleet_.count(NodeState::bad) > 0;
  fleet_.state = is_bad ? State::fail : is_open ? State::incomplete : State::pass;
  fleet_.exit_code = is_bad ? 1 : is_open ? 3 : 0;
  return std::move(fleet_);
}

std::string headline_text(const Fleet& fleet) {
  const std::size_t bad = fleet.count(NodeState::bad), undecided = fleet.count(NodeState::undecided);
  const std::string of = " of " + plural(fleet.nodes.size(), "node");
  std::string line(name(fleet.state));
  if (bad > 0) line += " " + std::to_string(bad) + of + (bad == 1 ? " is bad" : " are bad");
  if (undecided > 0) line += (bad > 0 ? ", " : " ") + std::to_string(undecided) + (bad > 0 ? "" : of) + " undecided";
  if (bad + undecided == 0)
    line += " " + plural(fleet.nodes.size(), "node") + " of " + plural(fleet.gpus, "GPU") + " good";
  const FleetNode* const first = fleet.nodes.empty() ? nullptr : &fleet.nodes.front();
  if (first != nullptr && first->state != NodeState::good && !first->reasons.empty())
    line += ": " + first->reasons.front();
  return one_line(line);
}

}  // namespace shakedown
