// Decides for each node of a verdict whether it is good or bad, and which action it needs. The functions are pure.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// isolate: remove the node and have it repaired. reset: remove the node, reset its GPUs or restart it, and measure
/// again. monitor: use the node, and measure it again later.
enum class Action { none, monitor, reset, isolate };
constexpr auto words(Action) { return names("", "MONITOR", "RESET", "ISOLATE"); }

/// good: the node was measured and judged, and has no fault. undecided: it is not proven good, because the node of a
/// fault is unknown, there was no reference, or only some families were judged.
enum class NodeState { good, bad, undecided };
constexpr auto words(NodeState) { return names("good", "bad", "undecided"); }

struct NodeDecision {
  std::string host;
  int ranks = 0;  // 0: the node was expected, but did not report
  NodeState state = NodeState::good;
  Action action = Action::none;
  std::vector<std::string> reasons;
  std::string next;  // command to run next
};

struct NodeList {
  State verdict = State::incomplete;
  std::vector<NodeDecision> nodes;             // in the order of the run
  std::vector<std::string> undecided_because;  // why nodes are undecided; empty if each is good or bad
};

NodeList decide_nodes(const Verdict&);

/// Returns lines "host slots=8" for mpirun and --roster. If there are no hosts, returns a comment.
std::string host_file(const NodeList&, NodeState);

}  // namespace shakedown
