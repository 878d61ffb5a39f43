// The part at fault: a GPU, link, node, rank or setting, with the evidence, the root cause and the next command.
// thresholds/culprits/suspects.hpp finds it.
//
//   evidence                                                         cause
//   its GEMM per GHz or its HBM is slow (and its row and column      slow GPU
//     of the copy matrix)
//   one ordered pair of the matrix is slow, and no row or column     slow link
//   row and column are slow, GEMM and HBM are not                    slow link or slow GPU: its ports
//   three quarters of a host's ranks are slow, or the better ranks   slow node
//   GEMM is slow, GEMM per GHz is not: the clock explains it         power or heat
//     and nothing but the chip explains the clock                    slow silicon: does not fail
//   a collective is slow, all links are healthy, no rank is late     configuration (on several hosts: or the fabric)
//   a rank comes late to most barriers                               late rank: its processor, not its GPU
//   fixed work takes its processor longer, or its launches do        busy core: its processor, not its GPU
//   a finding names ranks whose data were wrong                      wrong data of each rank
//   the row states a fallback, or a library is missing or too old    software
//   more than half of all ranks miss a limit                         configuration or power: no single culprit
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"

namespace shakedown {

/// The kind of fault. slow_silicon is a healthy chip whose clock at the power limit is lower than that of other chips.
/// Kinds between hosts (thresholds/culprits/fabric.hpp) are last.
enum class Cause {
  slow_gpu,
  slow_link,
  slow_node,
  late_rank,
  busy_core,
  wrong_data,
  software,
  configuration,
  power_or_heat,
  slow_silicon,
  slow_nic,
  slow_leaf,
  slow_uplink,
  slow_path
};
constexpr auto words(Cause) {
  return names("slow GPU", "slow link", "slow node", "late rank", "busy core", "wrong data", "software",
               "configuration", "power or heat", "slow silicon", "slow NIC", "slow leaf switch", "slow uplink",
               "slow path");
}

/// One measurement that shows that a suspect is slow.
struct Evidence {
  Key key;
  std::string metric;
  Judgement by = Judgement::peers;
  std::optional<double> value, expected;  // `expected`: median of the peers, or the limit of a rule
  std::optional<double> percent;          // how far the value misses `expected`, relative to it
  std::optional<double> mads;             // how far the value misses `expected`, in MADs of the peers
};

/// Maximum number of measurements to show for a suspect; their count is always complete.
inline constexpr std::size_t max_evidence = 6;

/// A suspect: the part at fault, with the evidence and the next command.
struct Diagnosis {
  std::vector<Cause> causes;    // several if the evidence does not distinguish them, the most likely first
  bool heat = false;            // true: heat lowered the clock of this part
  bool fails = true;            // false: shown only because users will ask about it
  Part part = {};               // set for suspects between hosts
  std::vector<Culprit> places;  // for a GPU: the GPU; for a link: source and destination; for a node: its host
  std::size_t place_count = 0;
  std::optional<double> percent, mads;  // of the strongest evidence
  std::vector<Evidence> evidence;       // at most max_evidence entries, the strongest first
  std::size_t evidence_count = 0;
  std::vector<Key> keys;  // of all evidence
  std::string detail;     // what was observed, in one sentence
  std::string telemetry;  // clock, power, temperature, throttling and errors; empty if unknown
  std::string next;       // command to run next
};

/// Sets the evidence and its keys. Keeps at most max_evidence entries, the strongest first.
void add_evidence(Diagnosis&, std::vector<Evidence>);

/// Returns findings for suspects that no other judgement has found: a clock that heat or the power supply lowers.
std::vector<Finding> findings_of(const std::vector<Diagnosis>&);

/// Returns "slow GPU", or "slow link or slow GPU" if the evidence does not distinguish these causes.
std::string causes_text(const Diagnosis&);

}  // namespace shakedown
