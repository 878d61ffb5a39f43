// The figures of a good run, their margins to the limits, and the normal range.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// The worst value of the figure that the profile marks for a family. If it marks none, the worst value of the figure
/// that is closest to its limit. `margin` is the relative distance to the limit, negative if the value misses it.
struct FamilyFigure {
  const Finding* finding = nullptr;
  double margin = 0;
};

/// Returns one figure for each family that has a rate or time with a limit, in the order of the findings.
std::vector<FamilyFigure> family_figures(const Verdict&);

/// Returns "closest to its limit: HBM copy by copy engine, 4 GiB: 4272.6 GB/s, min 3960, 7.9 %". Empty if there is no
/// such figure, or if family_figures() includes it.
std::string closest_text(const Verdict&);

/// Returns "802.18 to 832.89 on 10 GPUs", with "below: " or "above: " if the value is outside this range. Empty if no
/// stored runs are known.
std::string usual_text(const Finding&);

}  // namespace shakedown
