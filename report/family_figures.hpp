// The figures of a good run: how fast it is, how far from its limits, and whether that is usual.
#pragma once

#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// The worst value of the best-known figure of a family, or where the profile marks none, of the one closest to its
/// limit. `margin`: how far the value is on the good side of the limit, as a part of it; below 0 on the bad side.
struct FamilyFigure {
  const Finding* finding = nullptr;
  double margin = 0;
};

/// Returns the figure of each family whose rates or times are compared with a limit, in the order of the findings.
std::vector<FamilyFigure> family_figures(const Verdict&);

/// Returns "closest to its limit: HBM copy by copy engine, 4 GiB: 4272.6 GB/s, min 3960, 7.9 %"; empty if the figures
/// have it, or if there is none.
std::string closest_text(const Verdict&);

/// Returns "802.18 to 832.89 on 10 GPUs", with "below: " or "above: " where the value is not in it; empty without
/// stored runs.
std::string usual_text(const Finding&);

}  // namespace shakedown
