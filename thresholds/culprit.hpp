// Puts findings and measurements together to what is at fault: which GPU, link, node, rank or setting, with the
// evidence and the next command. Pure.
//
//   evidence                                                         cause
//   its GEMM per GHz or its HBM is slow (and its row and column      slow GPU
//     of the copy matrix)
//   one ordered pair of the matrix is slow, and no row or column     slow link
//   row and column are slow, GEMM and HBM are not                    slow link or slow GPU: its ports
//   three quarters of a host's ranks, or what most of them reach     slow node
//   GEMM is slow, GEMM per GHz is not: the clock explains it         power or heat
//     and nothing but the chip explains the clock                    slow silicon: said, not failed
//   a collective is slow, all links are healthy, nobody is late      configuration (on several hosts: or the fabric)
//   a rank comes late to most barriers                               late rank: its processor, not its GPU
//   a finding names ranks whose data were wrong                      wrong data, of each
//   more than half of all ranks miss a limit                         configuration or power: no single culprit
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thresholds/evidence.hpp"
#include "thresholds/peers.hpp"
#include "thresholds/verdict.hpp"

namespace shakedown {

/// `findings` are those of all judgements; the worst culprit comes first, those that fail nothing last.
std::vector<Diagnosis> diagnose(const std::map<std::string, Benchmark>&, const PeerComparison&,
                                const std::vector<Finding>&);

/// Of culprits that no finding of another judgement accuses: a clock that heat or the supply holds down.
std::vector<Finding> findings_of(const std::vector<Diagnosis>&);

/// "slow GPU", or "slow link or slow GPU" where the evidence does not separate them.
std::string causes_text(const Diagnosis&);

}  // namespace shakedown
