// How much two sets of launches of machines that did not change differ by: what is known of a kind of figure, and what
// the launches themselves show. Pure. docs/statistics.md has the formulas.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "thresholds/history/baseline.hpp"

namespace shakedown {

/// Standard deviations of the difference of two means of a figure, relative to the older one.
struct Noise {
  double sigma = 0;     // of one launch, by what is known and by these launches
  double launches = 0;  // of the difference, by launches
  double shared = 0;    // by days and machines, which all figures of a family have in common
  double degrees = 0;   // of freedom of sigma
};

/// Which launches of old and new share a block, a session and a machine. Launches on one machine of which none began
/// more than `hours_of_session` after the one before it are a session; those of one side that follow each other in a
/// session are a block. A session in which old and new take turns is one block: a drift meets both.
class LaunchPlan {
 public:
  LaunchPlan(const Baseline& before, const Baseline& now);

  /// Returns the noise of one figure: `key` and `metric` name the kind.
  Noise noise(const Key& key, const std::string& metric, const Series& before, const Series& now) const;

  /// Returns a note on sessions, hosts and GPUs that differ; nullopt if old and new share all sessions.
  std::optional<std::string> note() const;

 private:
  struct Place {
    std::size_t block = 0, session = 0, machine = 0;
  };
  using Places = std::map<std::string, Place>;  // by name of the launch

  void place_launches(const Baseline& before, const Baseline& now);
  void join_turns();

  Places before_, now_;
  std::set<std::string> hosts_[2], gpus_[2];  // of the baseline, of now
};

}  // namespace shakedown
