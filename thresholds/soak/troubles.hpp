// The faults of the rounds of a soak, each with the rounds in which it occurs.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/soak/soak_rounds.hpp"

namespace shakedown {

/// The same fault at the same place, in one or more rounds.
struct Trouble {
  Status worst = Status::pass;
  bool figure = true;
  std::vector<std::size_t> rounds;
  std::set<Key> keys;
  std::string detail;  // detail of the first round
};

/// The name of a fault, and its place: a unit, both ends of a link, a host, or none.
struct TroublePlace {
  Key what;
  std::vector<std::string> places;

  friend auto operator<=>(const TroublePlace&, const TroublePlace&) = default;
};

/// Returns the faults of the rounds.
std::map<TroublePlace, Trouble> troubles_of(const std::vector<SoakRound>&);

/// True if these are at least half of `count` rounds, or if more of them follow each other than their frequency
/// explains by chance. A healthy GPU near a limit misses it in one round of five, all day.
bool lasts(const std::vector<std::size_t>& rounds, std::size_t count);

/// True if the round ended early and the machine is not the cause, which means that its ranks did not die.
bool is_unmeasured(const SoakRound&);

}  // namespace shakedown
