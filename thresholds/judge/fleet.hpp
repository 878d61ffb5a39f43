// Runs of separate nodes as one fleet: the verdict of each node by its own run, and its GPUs compared with those of the
// other nodes. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "thresholds/judge/nodes.hpp"
#include "thresholds/results/combined_run.hpp"

namespace shakedown {

/// A node of a fleet. NodeDecision has what is decided, by its own run and by comparison with other nodes.
struct FleetNode : NodeDecision {
  std::string run, started, profile;  // started: UTC, empty if unknown
  State verdict = State::incomplete;  // of its own run
  std::string not_compared;           // why it was not compared with other nodes; empty if it was
};

/// A run or a folder that says nothing about the fleet.
struct UnusedRun {
  std::string path, why;
  bool is_older = false;  // a later run of the same node is judged instead
};

struct Fleet {
  State state = State::incomplete;
  int exit_code = 3;
  int gpus = 0;
  std::vector<FleetNode> nodes;        // the bad ones first, then the undecided
  std::vector<UnusedRun> left_out;       // as they were given
  std::vector<Diagnosis> culprits;     // by the comparison of nodes
  std::vector<std::string> summaries;  // of each comparison

  std::size_t count(NodeState) const;
  NodeList list() const;  // for host files and commands of schedulers
};

/// Returns the verdict by peers alone. Ranks in it are those of each host.
Verdict judge_peers(const Measured&, const JudgeOptions&);

class FleetJudge {
 public:
  /// Adds the run of these hosts with its own verdict. A run of one node that is `complete` is compared with such runs
  /// of the same version, plan, tier, profile and number of GPUs. `newer`: a later run of the node that is incomplete.
  void add(const std::vector<Results>& run, const Verdict&, const std::vector<std::string>& hosts,
           const std::string& path, bool complete, const std::string& newer = "");

  /// Adds a node without any result.
  void add_absent(const std::string& host, const std::string& why);

  Fleet judge(const JudgeOptions&, std::vector<UnusedRun> left_out) &&;

 private:
  void compare(const JudgeOptions&);
  void merge(const Verdict& by_peers);
  FleetNode* node(const std::string& host);

  Fleet fleet_;
  std::map<std::string, std::size_t> index_;     // of nodes by host
  std::map<std::string, CombinedRun> groups_;    // by what their runs have in common
  std::map<std::string, std::string> group_of_;  // by host
};

/// "FAIL 1 of 125 nodes is bad: node17 GPU 2 (...): slow GPU, ..."
std::string headline_text(const Fleet&);

}  // namespace shakedown
