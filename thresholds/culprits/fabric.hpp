// Finds the host, NIC, rail, leaf switch, uplink or path that is slow or silent in rounds of pairs. A pair is as fast
// as its slower end and the path between, so a host is judged by the best of its rounds, and a path by the median of
// the rounds that cross it. The functions are pure.
//
//   evidence (x: a rate over that of the others)                    cause
//   all hosts of one rail slow against the other rails              configuration: HCA order, GID, subnet
//   most hosts of a leaf on one rail, inside the leaf too           slow leaf switch
//   most rails of one host with every partner                       slow node
//   one rail of one host with every partner                         slow NIC (or the GPU's PCIe, where that is slow)
//   good inside the leaf, slow across with every other leaf         slow uplink
//   slow between two leaves only                                    slow path
//   no answer, and others answer both ends                          slow path: a dead one
//   AllReduce of two hosts slow or silent, each rail good           slow path: of that pair, no single host
//   slow in one round, not when repeated                            noted
//   a partner in no round                                           missing: nothing is known of that NIC
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

struct FabricJudgement {
  std::vector<Diagnosis> suspects;  // ordered by strength, the strongest first
  std::vector<Finding> findings;
  std::vector<Finding> wrong_data;
  bool judged = false;  // true if there are enough hosts to compare them
  std::string said;
};

/// `leaves` gives the leaf switches of hosts for which the results have none.
FabricJudgement judge_fabric(const Benchmarks&, const UnitTable&, const std::map<std::string, std::string>& leaves);

}  // namespace shakedown
