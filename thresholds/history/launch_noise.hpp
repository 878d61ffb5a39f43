// Estimates the difference between two sets of launches on unchanged machines, from the known noise of a kind of figure
// and from the launches themselves. The functions are pure. docs/statistics.md has the formulas.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "thresholds/history/baseline.hpp"

namespace shakedown {

/// Standard deviations of the difference of two means of a figure, relative to the older mean.
struct Noise {
  double sigma = 0;     // of one launch, estimated from both sides
  double launches = 0;  // part of the difference that comes from launches
  double shared = 0;    // part that comes from days and machines, which all figures of a family have in common
  double degrees = 0;   // degrees of freedom of sigma
};

/// Which launches of both sides are in the same block, session and machine. A session is a series of launches on one
/// machine in which each begins within `hours_of_session` of the previous launch. A block is a series of launches of
/// one side in a session. If old and new launches alternate in a session, all of them are one block, because a drift
/// affects both sides.
class LaunchPlan {
 public:
  LaunchPlan(const Baseline& before, const Baseline& now);

  /// Returns the noise of one figure of the kind of `key` and `metric`.
  Noise noise(const Key& key, const std::string& metric, const Series& before, const Series& now) const;

  /// Returns a note if sessions, hosts or GPUs differ; nullopt if old and new launches are in the same sessions.
  std::optional<std::string> note() const;

 private:
  struct Place {
    std::size_t block = 0, session = 0, machine = 0;
  };
  using Places = std::map<std::string, Place>;  // by name of the launch

  void place_launches(const Baseline& before, const Baseline& now);
  void join_turns();

  Places before_, now_;
  std::set<std::string> hosts_[2], gpus_[2];  // of the baseline, and of the new launches
};

}  // namespace shakedown
