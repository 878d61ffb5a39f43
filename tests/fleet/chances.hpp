// How good healthy GPUs are, by the noise of the plan: what lasts, what a launch has, and what one value has.
#pragma once

#include <string>

#include "tests/fleet/row.hpp"
#include "tests/fleet/site.hpp"

namespace shakedown::fleet {

class Chances {
 public:
  /// Both must outlive it.
  Chances(const Plan&, const Site&);

  Dice dice(Kind, const std::string& key) const;
  /// How good this rank is in this row, 1 being usual; rank -1: the row, of all ranks together. What a value has for
  /// itself another attempt has not.
  double good(Kind, const std::string& key, int rank, std::uint64_t attempt = 0) const;
  /// Of one value, as a logarithm.
  double residue(Kind, const Dice&) const;

 private:
  void draw_chips();
  bool belongs(const Group&, const Gpu&, const Dice& lasting, std::uint64_t id) const;
  double hiccup(Kind, const Dice&) const;

  const Plan& plan_;
  const Site& site_;
  Residuals residuals_;
  ByKind<Values> chips_;  // logarithms
};

}  // namespace shakedown::fleet
