// The figures of a good run, their margins to the limits, and the normal range.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// The worst value of the figure that the profile marks for a family, else of the figure closest to its limit.
/// `margin`: relative distance on the good side of the limit; negative on the bad side.
struct FamilyFigure {
  const Finding* finding = nullptr;
  double margin = 0;
};

/// Returns the figure of each family whose rates or times are compared with a limit, in the order of the findings.
std::vector<FamilyFigure> family_figures(const Verdict&);

/// Returns "closest to its limit: HBM copy by copy engine, 4 GiB: 4272.6 GB/s, min 3960, 7.9 %"; empty if the figures
/// include it, or there is none.
std::string closest_text(const Verdict&);

/// Returns "802.18 to 832.89 on 10 GPUs", with "below: " or "above: " if the value is outside; empty without stored
/// runs.
std::string usual_text(const Finding&);

}  // namespace shakedown
