// The table of a run. The table has a row for each unit (a GPU, a direction of a link, a host) and a column for each
// class of measurements. A cell has the result of the unit in the class. compare_peers() makes the table once, and
// later stages return copies with more data. The functions are pure. docs/statistics.md explains the statistics.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/findings/rank_telemetry.hpp"
#include "thresholds/results/results.hpp"
#include "thresholds/units/unit.hpp"

namespace shakedown {

/// The value of a unit in one benchmark.
struct PeerValue {
  Unit unit;
  std::uint8_t repetitions = 1;  // 1 if one of three is nearly normal; 255 also stands for more
  std::uint8_t gain = 0;         // of the best repetition over the median, in percent; 255 also stands for more
  bool out = false;              // true: an outlier, by this value and its class
  bool noted = false;            // true: an outlier that no other value confirms, so it is doubtful
  double value = 0;              // median over repetitions
  double shortfall = 0;  // how far the value is below the centre, relative to it; negative: better than the centre
};

/// The value of a host, over all its ranks. If the host is at fault, all its ranks are slow.
struct PeerHost {
  std::string host;
  double value = 0, shortfall = 0;
};

/// All values of one benchmark and metric on one kind of device. Copies between single pairs of ranks, and work of one
/// rank at a time, are one comparison: "src:*/dst:*", "rank:*".
struct Comparison {
  Key key;
  std::string metric, device;
  Key example;  // key of one of its benchmarks
  PeerClass kind{};
  const Context* context = nullptr;
  double centre = 0;  // median; if half of the units are slow, that of the healthy group; of two values, the better one
  double scale = 0;   // relative standard deviation of the class
  double limit = 0;   // the smallest shortfall of an outlier
  std::vector<PeerValue> values = {};
  double host_scale = 0, host_limit = 0;
  std::vector<PeerHost> hosts = {};  // empty if there is only one host

  bool outlier(const PeerHost& v) const { return v.shortfall > host_limit; }
  /// True if the value is not an outlier itself, but low enough to confirm another low value.
  bool low(const PeerValue& v) const { return v.shortfall > limit / 2 && v.shortfall > 3 * scale; }
  double mads(double shortfall) const { return shortfall / scale; }
};

/// One metric of a class of benchmarks, such as "gemm/dtype:bf16" and "tflops".
struct ClassMetric {
  Key name;
  std::string metric;

  friend auto operator<=>(const ClassMetric&, const ClassMetric&) = default;
};

/// The shortfall of a unit in a class.
struct Cell {
  Unit unit;
  std::uint32_t rows = 0;
  double shortfall = 0;   // median over the rows, relative to the centre of all units
  bool repeated = false;  // if the class has one row: true if it has enough repetitions
  bool out = false;
};

/// One metric of a class, on one kind of device.
struct Column : ClassMetric {
  std::string device;
  PeerClass kind{};
  const Context* context = nullptr;
  double scale = 0, limit = 0;         // see Comparison
  double ahead = 0;                    // distance of the best quarter of the units from the centre
  double warning_limit = 0;            // the smallest shortfall of a warning; equal to the limit if there is no warning
  std::vector<std::size_t> rows = {};  // indices in UnitTable::comparisons
  std::vector<Cell> cells = {};        // sorted by rank, and then by source

  /// Returns the cell of a unit; nullptr if the class has no values of it.
  const Cell* find(const Unit&) const;
};

/// The number of rows or units with a limit, and how many of them miss it.
struct LimitCount {
  std::size_t all = 0, missed = 0;
};

/// The evidence about one aspect of a unit. Classes overlap, but an aspect has each row once.
struct Shown {
  std::vector<Evidence> failing;  // evidence that is enough to name the unit
  std::size_t rows = 0, low = 0;  // number of rows that were compared with peers, and how many of them are low

  /// True if the unit fails, or if most of its rows are low.
  bool is_slow() const { return !failing.empty() || 2 * low > rows; }
};

/// GPUs that form a faster and a slower group (thresholds/units/populations.hpp).
struct Population {
  std::optional<std::string> fact;  // fact that divides them, such as "vbios"; nullopt if none is known
  Key class_name;                   // such as "gemm"
  std::string metric;               // such as "tflops_per_ghz"
  std::string value, other_values;  // value of the fact at the slower GPUs, and at all others
  std::size_t slower_gpus = 0, other_gpus = 0;
  double difference = 0;            // relative difference of the medians
  std::vector<std::string> groups;  // by rank: its group, such as "with vbios 96.00.B9" or "of the slower group"
  /// Set if all slower GPUs are on one host; the fact or the host may be the cause, so it is a suspect.
  std::optional<std::string> host;
};

struct UnitTable {
  std::vector<Comparison> comparisons;
  std::vector<Column> columns;
  /// By class, device and number of ranks: indices of the columns.
  std::map<ClassMetric, std::vector<std::size_t>> columns_of;
  /// Limits of units that miss at least one; with_limits() sets them.
  std::map<ClassMetric, std::map<Unit, LimitCount>> limits;
  std::map<Unit, std::map<Aspect, Shown>> shown;  // set by RunEvidence
  std::vector<Population> populations;            // groups that are each compared only with itself
  /// Number of values that were compared, on which the limits depend.
  std::size_t tests = 0;
  int ranks = 0;
  RankTelemetry telemetry;
  bool counts = true;        // false on the host backend, where ranks share cores, so that outliers are only warnings
  std::string not_compared;  // why there is nothing to compare

  /// Returns the cells of a unit in the classes of a benchmark, each with its column, the widest class first.
  std::vector<std::pair<const Column*, const Cell*>> cells(const Key& benchmark, const std::string& metric, int rank,
                                                           std::optional<int> from) const;

  /// True if a unit is an outlier in a class of this family.
  bool is_out(const Unit&, std::string_view family) const;

  /// Returns how many units were compared in a class, and how many of them miss a limit.
  LimitCount units_with_limits(const ClassMetric&) const;
};

}  // namespace shakedown
