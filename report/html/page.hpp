// A verdict as one self-contained HTML page, which loads nothing from other places.
#pragma once

#include <string>

#include "report/judged.hpp"
#include "thresholds/history/regression.hpp"

namespace shakedown {

/// Returns a page below 300 kB for a few nodes, and below 5 MB for 10,000 GPUs: beyond 64 GPUs it shows the worst ones,
/// and a distribution of all. A stored verdict has no results, so its page has no figures.
std::string html_text(const Judged&);

/// Returns the page of a comparison with a baseline. Changes are first, and each benchmark has a drawing of its
/// launches.
std::string html_text(const Regression&);

}  // namespace shakedown
