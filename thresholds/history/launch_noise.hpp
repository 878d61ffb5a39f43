// The difference between two sets of launches on unchanged machines: from the known noise of a kind of figure, and from
// the launches themselves. Pure. docs/statistics.md has the formulas.
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
  double sigma = 0;     // of one launch, from both
  double launches = 0;  // of the difference, from launches
  double shared = 0;    // from days and machines, common to all figures of a family
  double degrees = 0;   // degrees of freedom of sigma
};

/// Which launches of old and new share a block, a session and a machine. Launches on one machine of which none began
/// more than `hours_of_session` after the one before it are a session; those of one side that follow each other in a
/// session are a block. A session in which old and new take turns is one block: a drift meets both.
class LaunchPlan {
 public:
  LaunchPlan(const Baseline& before, const Baseline& now);

  /// Returns the noise of one figure of the kind of `key` and `metric`.
  Noise noise(const Key& key, const std::string& metric, const Series& before, const Series& now) const;

  /// Returns a note on different sessions, hosts and GPUs; nullopt if old and new share all sessions.
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
