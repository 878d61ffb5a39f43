// The judgement by peers: a rank against the ranks of the same kind in the same run. It needs no profile, so that it
// speaks on machines that nobody has measured before. Pure. The statistics are explained in docs/statistics.md.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/finding.hpp"
#include "thresholds/measured.hpp"
#include "thresholds/metrics.hpp"

namespace shakedown {

struct PeerValue {
  int rank = 0;
  std::optional<int> from;  // of a copy between ranks: whose data it is
  double value = 0;         // median over repetitions
  double shortfall = 0;     // how far on the bad side of the centre, relative to it; negative = better
};

/// The same over all ranks of a host, which slow alike when the host is at fault.
struct PeerHost {
  std::string host;
  double value = 0, shortfall = 0;
};

/// All values of one benchmark and metric on one kind of device. Copies between single pairs of ranks, and work of one
/// rank at a time, are one comparison: "src:*/dst:*", "rank:*".
struct Comparison {
  std::string key, metric, device;
  std::string example;  // the key of one of its benchmarks
  PeerClass kind{};
  const Context* context = nullptr;
  double centre = 0;  // median; of two values the better
  double scale = 0;   // relative; 1.4826 MAD, at least kind.spread
  double limit = 0;   // a shortfall beyond it is an outlier
  std::vector<PeerValue> values;
  double host_scale = 0, host_limit = 0;
  std::vector<PeerHost> hosts;  // empty on one host

  bool outlier(const PeerValue& v) const { return v.shortfall > limit; }
  bool outlier(const PeerHost& v) const { return v.shortfall > host_limit; }
  /// Too little to accuse, enough to support an accusation.
  bool low(const PeerValue& v) const { return v.shortfall > limit / 2 && v.shortfall > 3 * scale; }
  double mads(double shortfall) const { return shortfall / scale; }
};

struct PeerComparison {
  std::vector<Comparison> comparisons;
  std::size_t tests = 0;  // how many values were compared: what the limits are corrected for
  int ranks = 0;
  bool counts = true;        // false: ranks of the host backend share cores; who stands out is named, and fails nothing
  std::string not_compared;  // why there is nothing to compare
};

/// `family`: only its benchmarks. Benchmarks with an error or a waiver are left out.
PeerComparison compare_peers(const Benchmarks&, const std::optional<std::string>& family);

/// One finding for each comparison that has outliers; none where nobody stands out.
std::vector<Finding> findings_of(const PeerComparison&);

/// "57 benchmarks x 4 ranks: nobody stands out"
std::string summary(const PeerComparison&);

}  // namespace shakedown
