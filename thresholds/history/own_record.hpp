// The comparison of a run with earlier accepted runs of the same GPUs. Chips differ from each other, but the figures of
// one chip repeat, so a small loss is visible without peers.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/figure_name.hpp"
#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The figures of earlier accepted runs: medians over these runs.
struct OwnRecord {
  std::map<std::string, std::map<FigureName, double>> by_gpu;  // by serial number or UUID
  std::map<FigureName, double> shared;                         // figures of all GPUs of the node together
  std::size_t runs = 0;
  std::string newest;  // id of the newest of these runs
};

struct OwnRecordJudgement {
  std::vector<Finding> findings;  // one for each family in which a GPU, or the node, is slower than before
  std::string summary;
};

/// The change of a node against its own record: that of the family that lost most.
struct OwnDrift {
  std::string family;
  std::string gpu;       // serial number or UUID; empty: a figure of all GPUs of the node
  double percent = 0;    // negative: slower
  std::size_t runs = 0;  // number of earlier runs
  bool is_loss = false;  // true: beyond the limit of the family
};

/// Returns the serial number of the rank's GPU, else its UUID; empty if neither is known.
std::string gpu_id(const RankFacts&);

/// Compares each GPU with its own record. A GPU fails in a family if most of its rows are slower than before by more
/// than a limit; of two rows the better one decides. Times are not compared, because those of small messages vary by
/// 8 % between launches. On the host backend findings are warnings, because ranks share cores.
OwnRecordJudgement judge_own_record(const Measured&, const OwnRecord&);

/// Returns the drift of each host, in the families of a gate, for which the limits were chosen. A host without figures
/// in its record has none.
std::map<std::string, OwnDrift> own_drifts(const Measured&, const std::map<std::string, OwnRecord>& by_host);

}  // namespace shakedown
