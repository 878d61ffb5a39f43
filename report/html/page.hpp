// A verdict as one page for people: everything that it needs is in it, and it asks nobody for anything.
#pragma once

#include <string>

#include "report/judged.hpp"
#include "thresholds/history/regression.hpp"

namespace shakedown {

/// Below 300 kB for some nodes, below 5 MB for 10,000 GPUs: beyond 64 GPUs the worst are shown, and all as a
/// distribution. Without results (a stored verdict) there are no figures.
std::string html_text(const Judged&);

/// A comparison with a baseline: what changed first, each benchmark with the course of its launches.
std::string html_text(const Regression&);

}  // namespace shakedown
