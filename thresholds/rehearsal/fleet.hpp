// A simulated acceptance of a machine with known faults. A simulated fleet has results as the programs would write
// them, and tests the judge. Each value is computed from the parts that affect it, and multiplied by the noise of the
// launch, of the row and of the value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/rehearsal/figures.hpp"
#include "thresholds/rehearsal/machine.hpp"
#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/rehearsal/random.hpp"
#include "thresholds/results/results.hpp"
#include "thresholds/units/doubt.hpp"

namespace shakedown::rehearsal {

struct Order {
  Shape shape;
  Noise noise;
  std::vector<Fault> faults;  // faults with their places (placed() chooses these)
  std::uint64_t seed = 1;
  std::uint64_t launch = 0;  // number of the launch; each launch of a machine has other noise
  Tier tier = Tier::quick;   // quick or gate
  bool repeats = true;       // true: repeats doubtful rows, as docs/measuring.md describes
  // Limits by which the programs repeat collectives. Null: none. Must outlive the fleet.
  const std::vector<Profile>* limits = nullptr;
  // Number of samples, which gives rows of pairs samples and a cv; 0: rows have neither, as in fixtures/pairs.
  int pair_samples = 0;
};

class Fleet {
 public:
  explicit Fleet(Order);

  const Machine& machine() const { return machine_; }
  const Order& order() const { return order_; }

  /// Returns the results of all families, as their programs write them.
  std::vector<Results> results() const;

  /// Returns the results of one family. Errors: InputError for a family that is not in the plan.
  Results results(std::string_view family) const;

  /// Measures a row again on the same machine. Each `number` from 0 on has other noise. Errors: InputError for a key
  /// that is not in the plan.
  Row measure(std::string_view key, int number) const;

  /// Measures a metric of a rank `times` more times, with noise that results() does not use.
  std::vector<double> measure(std::string_view key, std::string_view metric, int rank, int times) const;

 private:
  double network_delay(Random&, bool across) const;
  void add_errors(const Planned&, Row&) const;
  Row row_of(const Planned&, double when, int number) const;
  void draw_local(const Planned&, double when, int number, Times&) const;
  void draw_collective(const Planned&, int number, Times&) const;
  void draw_step(const Planned&, double when, int number, Times&) const;
  void draw_pairs(const Planned&, int number, Times&) const;
  double collective_seconds(const Planned&, int first_host, int hosts) const;
  double clock(const Planned&, int rank, double when) const;
  double rate(const Planned&, int rank) const;
  std::vector<Row> rows_of(const PlannedFamily&, double when) const;
  std::vector<Doubt> missed_limits(const PlannedFamily&, const std::vector<Row>&) const;
  std::vector<Row> measured_thrice(const std::vector<Planned>&, std::vector<Row>, double when) const;
  Context context(const PlannedFamily&) const;

  Order order_;
  std::uint64_t noise_seed_;
  Machine machine_;
  std::vector<PlannedFamily> plan_;
};

/// Writes a file for each family, as its program does: folder/<family>.json.
void write(const std::vector<Results>&, const std::filesystem::path& folder);

/// Returns the pre-flight row of these facts.
Row facts_row(const Machine&, const std::string& key);

}  // namespace shakedown::rehearsal
