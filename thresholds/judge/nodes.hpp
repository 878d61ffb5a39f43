// What to do with each node after a verdict: which are good, which must leave, and what helps. Pure.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// isolate: take it out and have it repaired. reset: take it out, reset its GPUs or restart it, and measure again.
/// monitor: use it, and look at it again.
enum class Action { none, monitor, reset, isolate };
constexpr auto words(Action) { return names("", "MONITOR", "RESET", "ISOLATE"); }

/// good: measured, judged, and accused of nothing. undecided: something failed that no node could be blamed for, there
/// was no reference, or one family only was judged; such a node is not proven good.
enum class NodeState { good, bad, undecided };
constexpr auto words(NodeState) { return names("good", "bad", "undecided"); }

struct NodeDecision {
  std::string host;
  int ranks = 0;  // 0: it should have reported and did not
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

/// Lines "host slots=8" for mpirun and --roster; a comment where there are none.
std::string host_file(const NodeList&, NodeState);

}  // namespace shakedown
