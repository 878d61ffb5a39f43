// A made acceptance: results as the programs would write them, of a machine whose parts are known. It judges the judge.
// Each figure is computed from the parts that take part in it, times noise of the launch, of the row and of the value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/rehearsal/machine.hpp"
#include "thresholds/rehearsal/plan.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::rehearsal {

struct Order {
  Shape shape;
  Noise noise;
  std::vector<Fault> faults;  // where they say (placed() makes places)
  std::uint64_t seed = 1;
  bool repeats = true;  // rows in doubt are measured again, as docs/measuring.md says
  // Samples and cv that rows of pairs of hosts tell; 0: neither, as fixtures/pairs writes them.
  int pair_samples = 0;
};

class Fleet {
 public:
  explicit Fleet(Order);

  const Machine& machine() const { return machine_; }
  const Order& order() const { return order_; }

  /// Returns the results of every family, as its program writes them.
  std::vector<Results> results() const;

  /// The row once more: the same machine, other noise for every other number from 0 on. Errors: InputError for a key
  /// that the plan does not have.
  Row measure(std::string_view key, int number) const;

  /// The metric of the rank `times` times more, after all that results() has.
  std::vector<double> measure(std::string_view key, std::string_view metric, int rank, int times) const;

 private:
  struct Drawn;  // what each rank took

  Row row_of(const Planned&, double when, int number) const;
  Drawn drawn(const Planned&, double when, int number) const;
  void draw_local(const Planned&, double when, int number, Drawn&) const;
  void draw_collective(const Planned&, int number, Drawn&) const;
  void draw_step(const Planned&, double when, int number, Drawn&) const;
  void draw_pairs(const Planned&, int number, Drawn&) const;
  double collective_seconds(const Planned&, int first_host, int hosts) const;
  double clock(const Planned&, int rank, double when) const;
  double rate(const Planned&, int rank) const;
  std::vector<Row> rows_of(const PlannedFamily&, double when) const;
  Context context(const PlannedFamily&) const;

  Order order_;
  Machine machine_;
  std::vector<PlannedFamily> plan_;
};

/// Writes what each family's program would have written, into folder/<family>.json.
void write(const std::vector<Results>&, const std::filesystem::path& folder);

/// The pre-flight row of these facts.
Row facts_row(const Machine&, const std::string& key);

}  // namespace shakedown::rehearsal
