// Combines runs of separate nodes into one fleet. Each node has the verdict of its own run, and its GPUs are compared
// with those of the other nodes. The functions are pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "thresholds/history/own_record.hpp"
#include "thresholds/judge/nodes.hpp"
#include "thresholds/ledger/ledger.hpp"
#include "thresholds/ledger/states.hpp"
#include "thresholds/results/combined_run.hpp"

namespace shakedown {

/// A node of a fleet. NodeDecision has the decision, which depends on its own run and on the comparison with other
/// nodes.
struct FleetNode : NodeDecision {
  std::string run, started, profile;  // started: UTC; empty if unknown
  State verdict = State::incomplete;  // verdict of its own run
  std::string not_compared;           // why it was not compared with other nodes; empty if it was compared
  std::vector<LedgerGpu> gpus;        // of its run; accused: by its own verdict, or by the comparison with other nodes
  std::optional<OwnDrift> drift;      // nullopt if the ledger has no earlier accepted run of its GPUs
  std::optional<LedgerState> recorded;  // state in the ledger, since `recorded_since`; nullopt if it has no event
  std::string recorded_since;
};

/// A run, a folder or an event of the ledger that is not used.
struct UnusedRun {
  std::string path, why;
  bool is_older = false;  // true: a later run of the same node is judged instead
  bool is_event = false;  // true: an event, on which only the verdict on its own node depends; a file whose name has no
                          // node was not written as an event

  /// True if the fleet cannot pass without it.
  bool counts() const { return !is_older && !is_event; }
};

struct Fleet {
  State state = State::incomplete;
  int exit_code = 3;
  int gpus = 0;
  std::vector<FleetNode> nodes;        // bad nodes first, then undecided ones
  std::vector<UnusedRun> left_out;     // in the order in which they were given
  std::vector<Diagnosis> culprits;     // found by the comparison of nodes
  std::vector<std::string> summaries;  // one line for each comparison

  std::size_t count(NodeState) const;
  NodeList list() const;  // Returns the nodes for host files and for commands of schedulers.
};

/// Returns the verdict of the comparison with peers alone. Ranks in it have their numbers on their own host.
Verdict judge_peers(const Measured&, const JudgeOptions&);

class FleetJudge {
 public:
  /// Adds the run of these hosts with its own verdict. A `complete` run of one node is compared with other such runs of
  /// the same version, plan, tier, profile and number of GPUs. `newer` has, by host, a later run that is incomplete.
  void add(const std::vector<Results>& run, const Verdict&, const std::vector<std::string>& hosts,
           const std::string& path, bool complete, const std::map<std::string, std::string>& newer = {});

  /// Sets the drift of a node that was added. A good node that is slower than before is to be monitored.
  void set_drift(const std::string& host, const OwnDrift&);

  /// Adds a node without any result.
  void add_absent(const std::string& host, const std::string& why);

  /// Leaves an event out. It may be a failure of its node, so that node is undecided.
  void add_unreadable(const UnreadableEvent&);

  /// Sets the states of the nodes that were added.
  void set_records(const std::vector<NodeRecord>&);

  Fleet judge(const JudgeOptions&, std::vector<UnusedRun> left_out) &&;

 private:
  void compare(const JudgeOptions&);
  void merge(const Verdict& by_peers);
  FleetNode* node(const std::string& host);

  Fleet fleet_;
  std::vector<UnusedRun> unreadable_;
  std::map<std::string, std::size_t> index_;     // by host: the index of its node
  std::map<std::string, CombinedRun> groups_;    // by properties that their runs have in common
  std::map<std::string, std::string> group_of_;  // by host: its group
};

/// Returns "FAIL 1 of 125 nodes is bad: node17 GPU 2 (...): slow GPU, ...".
std::string headline_text(const Fleet&);

}  // namespace shakedown
