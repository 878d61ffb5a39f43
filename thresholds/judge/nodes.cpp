// Decides about nodes. A node is good only if other parts explain every failure of the run.
#include "thresholds/judge/nodes.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

Action action_of(const Diagnosis& d) {
  if (!d.fails) return Action::monitor;
  switch (d.causes.front()) {
    case Cause::slow_gpu:
    case Cause::slow_link:
    case Cause::slow_node:
    case Cause::slow_nic:
    case Cause::wrong_data: return Action::isolate;
    // A GPU that heat has slowed needs a repair. Other causes of a low clock may end with a reset.
    case Cause::power_or_heat: return d.heat ? Action::isolate : Action::reset;
    case Cause::late_rank:
    case Cause::busy_core: return Action::reset;
    case Cause::software:
    case Cause::configuration:
    case Cause::slow_silicon:
    case Cause::slow_leaf:
    case Cause::slow_uplink:
    case Cause::slow_path: return Action::none;  // no host is at fault
  }
  return Action::isolate;
}

// Returns the action for a finding. After a reset, a restart or a change of a setting, the host can be used without a
// repair.
Action action_of(const Finding& f) {
  if (!f.remedy) return Action::isolate;
  switch (f.remedy->action) {
    case RemedyAction::setting:
    case RemedyAction::restart:
    case RemedyAction::reset: return Action::reset;
    case RemedyAction::none:
    case RemedyAction::reseat:
    case RemedyAction::replace: break;
  }
  return Action::isolate;
}

class Decider {
 public:
  explicit Decider(const Verdict& verdict) : verdict_(verdict) {
    list_.verdict = verdict.state;
    for (const Node& node : verdict.nodes) {
      index_.emplace(node.host, list_.nodes.size());
      list_.nodes.push_back({node.host, node.ranks, NodeState::good, Action::none, {}, ""});
    }
  }

  NodeList decide() {
    for (const Diagnosis& d : verdict_.culprits) blame(d);
    for (const Finding& f : verdict_.findings) {
      if (f.counts() && !f.good() && !repeats_suspect(f)) blame(f);
    }
    if (verdict_.state == State::incomplete && list_.undecided_because.empty()) {
      list_.undecided_because.push_back("the run is incomplete");
    }
    if (verdict_.backend == Backend::virtual_gpu) {
      list_.undecided_because.push_back("the times are computed for a virtual GPU, so no GPU is proven good");
    }
    if (verdict_.state == State::host_only) {
      list_.undecided_because.push_back("only CPUs were measured, so no GPU is proven good");
    }
    if (verdict_.is_partial())
      list_.undecided_because.push_back("only a part of the run was judged: " + asked_text(verdict_));
    if (!list_.undecided_because.empty()) {
      for (NodeDecision& node : list_.nodes) {
        if (node.state == NodeState::good) node.state = NodeState::undecided;
      }
    }
    return std::move(list_);
  }

 private:
  NodeDecision& node(const std::string& host) {
    const auto [found, fresh] = index_.emplace(host, list_.nodes.size());
    if (fresh) list_.nodes.push_back({host, 0, NodeState::good, Action::none, {}, ""});
    return list_.nodes[found->second];
  }

  void accuse(const std::string& host, Action action, const std::string& reason, const std::string& next) {
    NodeDecision& accused = node(host);
    if (action > accused.action) {
      accused.action = action;
      accused.next = next;
    }
    if (action >= Action::reset) accused.state = NodeState::bad;
    if (std::find(accused.reasons.begin(), accused.reasons.end(), reason) == accused.reasons.end()) {
      accused.reasons.push_back(reason);
    }
  }

  void blame(const Diagnosis& d) {
    const Action action = action_of(d);
    if (d.fails && d.places.empty()) {
      // If all GPUs of the only host miss limits, the cause is a setting of the host. Collectives are excluded, because
      // they depend on settings of the user.
      what_they_share_is_to_blame_ = true;
      const bool is_of_gpus = std::any_of(d.evidence.begin(), d.evidence.end(), [](const Evidence& evidence) {
        return !is_collective(evidence.key.family()) && !is_training(evidence.key.family());
      });
      if (verdict_.nodes.size() == 1 && is_of_gpus)
        accuse(verdict_.nodes.front().host, Action::reset, text(summary_of(d)), d.next);
      list_.undecided_because.push_back(text(summary_of(d)));
      return;
    }
    if (d.fails && action == Action::none) the_network_is_to_blame_ = true;
    for (const Culprit& place : d.places) {
      Diagnosis here = d;
      std::tie(here.places, here.place_count) = std::pair(std::vector{place}, 1);
      accuse(place.host, action == Action::none ? Action::monitor : action, text(summary_of(here)), d.next);
      if (d.fails && action != Action::none) a_node_is_to_blame_ = true;
    }
  }

  // True for a finding that repeats a suspect between hosts.
  static bool repeats_suspect(const Finding& f) { return f.code == Code::pairs && f.status == Status::fail; }

  // Assigns a finding that no culprit explains. If it names all of its hosts, or as many as a finding can, they are
  // bad. If it does not name all, the other hosts are undecided.
  void blame(const Finding& f) {
    const bool performance =
        f.status == Status::fail && !f.metric.empty() && f.value.has_value() && f.key.family() != "preflight";
    // A culprit of the verdict explains this finding.
    if (performance && (a_node_is_to_blame_ || what_they_share_is_to_blame_)) return;
    if (performance && the_network_is_to_blame_ && waits_for_network(f)) return;
    const bool names_all = f.offender_count == f.offenders.size();
    const bool names = !f.offenders.empty() && (names_all || f.offenders.size() == max_named_offenders) &&
                       !is_shared(f.key, f.metric) && f.status != Status::no_reference &&
                       f.status != Status::inconclusive;
    if (!names && !f.wrong_ranks.empty() && a_node_is_to_blame_) return;
    if (!names || !names_all) list_.undecided_because.push_back(text(summary_of(f)));
    if (!names) return;
    for (const Culprit& offender : f.offenders) {
      Finding here = f;
      std::tie(here.offenders, here.offender_count) = std::pair(std::vector{offender}, 1);
      accuse(offender.host, action_of(f), text(summary_of(here)), f.next);
    }
  }

  static bool waits_for_network(const Finding& f) {
    const std::string family = f.key.family();
    return is_collective(family) || is_training(family) || family == "pairs";
  }

  const Verdict& verdict_;
  NodeList list_;
  std::map<std::string, std::size_t> index_;
  bool a_node_is_to_blame_ = false, the_network_is_to_blame_ = false, what_they_share_is_to_blame_ = false;
};

}  // namespace

NodeList decide_nodes(const Verdict& verdict) { return Decider(verdict).decide(); }

std::string host_file(const NodeList& list, NodeState state) {
  std::string text;
  for (const NodeDecision& node : list.nodes) {
    if (node.state != state) continue;
    std::string host = one_line(node.host);  // the name is made one word, because other words of the line are arguments
    std::replace(host.begin(), host.end(), ' ', '?');
    text += host;
    if (node.ranks > 0) text += " slots=" + std::to_string(node.ranks);
    text += "\n";
  }
  if (!text.empty()) return text;
  return "# no " + std::string(name(state)) + " nodes" +
         (state == NodeState::good && !list.undecided_because.empty() ? ": " + one_line(list.undecided_because.front())
                                                                      : "") +
         "\n";
}

}  // namespace shakedown
