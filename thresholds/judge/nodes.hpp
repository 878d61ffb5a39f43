// The consequence of a verdict for each node: good, bad, and the action. Pure.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// isolate: remove it and have it repaired. reset: remove it, reset its GPUs or restart it, and measure again. monitor:
/// use it, and measure it again later.
enum class Action { none, monitor, reset, isolate };
constexpr auto words(Action) { return names("", "MONITOR", "RESET", "ISOLATE"); }

/// good: measured and judged, without a fault. undecided: not proven good, because a fault has no known node, there was
/// no reference, or only some families were judged.
enum class NodeState { good, bad, undecided };
constexpr auto words(NodeState) { return names("good", "bad", "undecided"); }

struct NodeDecision {
  std::string host;
  int ranks = 0;  // 0: expected, but did not report
  NodeState state = NodeState::good;
  Action action = Action::none;
  std::vector<std::string> reasons;
  std::string next;  // command to run next
};

struct NodeList {
  State verdict = State::incomplete;
  std::vector<NodeDecision> nodes;             // in the order of the run
  std::vector<std::string> undecided_because;  // empty: every node is good or bad
};

NodeList decide_nodes(const Verdict&);

/// Returns lines "host slots=8" for mpirun and --roster; a comment if there are no hosts.
std::string host_file(const NodeList&, NodeState);

}  // namespace shakedown
