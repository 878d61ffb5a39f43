// What each rank shows beside the ranks of the same kind in the same run, row by row and by class.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

struct PeerValue {
  int rank = 0;
  std::optional<int> from;  // of a copy between ranks: whose data it is
  double value = 0;         // median over repetitions
  double shortfall = 0;     // how far on the bad side of the centre, relative to it; negative = better
  std::size_t repetitions = 1;
  bool out = false;    // its class stands out, and this value with it
  bool noted = false;  // it is an outlier that nothing confirms: in doubt
};

/// The same over all ranks of a host, which slow alike when the host is at fault.
struct PeerHost {
  std::string host;
  double value = 0, shortfall = 0;
};

/// All values of one benchmark and metric on one kind of device. Copies between single pairs of ranks, and work of one
/// rank at a time, are one comparison: "src:*/dst:*", "rank:*".
struct Comparison {
  Key key;
  std::string metric, device;
  Key example;  // of one of its benchmarks
  PeerClass kind{};
  const Context* context = nullptr;
  double centre = 0;  // median, of the healthy if half are slow; of two values the better
  double scale = 0;   // relative standard deviation of the class
  double limit = 0;   // a class that falls short by more stands out
  std::vector<PeerValue> values;
  double host_scale = 0, host_limit = 0;
  std::vector<PeerHost> hosts;  // empty on one host

  static bool outlier(const PeerValue& v) { return v.out; }
  bool outlier(const PeerHost& v) const { return v.shortfall > host_limit; }
  /// Too little to stand out, enough to support another measurement that does.
  bool low(const PeerValue& v) const { return v.shortfall > limit / 2 && v.shortfall > 3 * scale; }
  double mads(double shortfall) const { return shortfall / scale; }
};

/// A class of rows, and what each GPU, or each link, shows in it. See thresholds/units/classes.hpp.
struct PeerGroup {
  Key name;
  std::string metric, device;
  PeerClass kind{};
  const Context* context = nullptr;
  double scale = 0, limit = 0;    // as in Comparison
  std::vector<std::size_t> rows;  // of PeerComparison::comparisons

  struct Unit {
    int rank = 0;
    std::optional<int> from;
    double shortfall = 0;  // median over the rows, against the centre of all units
    std::size_t rows = 0;
    bool repeated = false;  // where there is one row: it was measured often enough to be no accident
    bool out = false;
  };
  std::vector<Unit> units;  // by rank, then by source
};

/// GPUs that a fact divides (thresholds/units/populations.hpp).
struct Population {
  std::string fact;                 // "vbios"
  Key class_name;                   // "gemm"
  std::string metric;               // "tflops_per_ghz"
  std::string value, other_values;  // of the fact, at the slower GPUs and at all others
  std::size_t slower_gpus = 0, other_gpus = 0;
  double difference = 0;  // of the medians, relative
};

struct PeerComparison {
  std::vector<Comparison> comparisons;
  std::vector<PeerGroup> groups;
  std::vector<Population> populations;  // each compared with itself
  std::size_t tests = 0;                // how many values were compared: what the limits are corrected for
  int ranks = 0;
  bool counts = true;        // false: ranks of the host backend share cores; who stands out is named, and fails nothing
  std::string not_compared;  // why there is nothing to compare
};

}  // namespace shakedown
