// Selects the fastest of several implementations of an operation, within time limits, on any device.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.hpp"

namespace shakedown {

/// How candidates are timed. A GPU at its power limit lowers its clock for an operation that draws more power, but only
/// over tens of milliseconds. In short turns all candidates therefore run at the clock of their mixture. The fastest
/// one depends on the clock, so candidates are timed in the way that the winner will run. With `sustained`, the closest
/// candidates run again, each alone for this number of seconds, and these rates decide. Operations too short to be
/// limited by power skip this. With `bursts`, the deciding turns run in bursts.
struct Tuning {
  double seconds;  // approximate duration of all turns
  double sustained = 0;
  std::optional<Bursts> bursts = std::nullopt;
  std::size_t min_candidates = 4;  // minimum number to try, regardless of the time
  int slow_turns = 1;              // number of turns in bursts for operations that take milliseconds
};

/// The ranks that divide the operations to tune: operation i is tuned by rank i % ranks, and its choice holds on all.
struct TuningShare {
  int rank = 0, ranks = 1;

  int owner(std::size_t operation) const { return static_cast<int>(operation % static_cast<std::size_t>(ranks)); }
};

/// Returns the share of this rank: ranks divide the operations if all have the same device. Otherwise each rank tunes
/// all of them, and the choices of rank 0 hold. Collective.
TuningShare tuning_share(Group&, const std::string& device);

/// The operations of a device that the search needs.
class Trials {
 public:
  virtual ~Trials() = default;
  /// Runs the candidate once and waits. Returns false if it does not run at all.
  virtual bool runs(std::size_t candidate) = 0;
  /// Returns the seconds of one of `repeats` operations in a row.
  virtual double seconds(std::size_t candidate, int repeats) = 0;
  virtual void rest(double seconds) = 0;
  /// Returns the seconds since some moment.
  virtual double now() const = 0;
};

/// Returns the index of the fastest of `count` candidates; nullopt if none runs. Candidates are measured round-robin,
/// so that warming up or throttling affects all of them equally; the median of a candidate's turns is compared. An
/// earlier candidate wins over a later one that is not clearly faster, so that the choice does not change from run to
/// run. Operations that take long have fewer candidates and turns. One operation of 2.5 s and more has only its first
/// candidate, whatever the limits of `Tuning`.
std::optional<std::size_t> pick_fastest(Trials&, std::size_t count, const Tuning&);

/// Returns the seconds of each of `count` candidates, measured in one turn after another; HUGE_VAL for a candidate that
/// does not run.
std::vector<double> one_turn(Trials&, std::size_t count, const std::optional<Bursts>& bursts = std::nullopt);

}  // namespace shakedown
