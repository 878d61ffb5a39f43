// A verdict as Prometheus text, for the textfile collector of node_exporter and for GitLab's reports:metrics.
#pragma once

#include <string>

#include "thresholds/verdict.hpp"

namespace shakedown {

/// Gauges in base units: shakedown_pass, shakedown_findings by status, the measured value and the limit of every
/// finding. Without time stamps, with which the collector refuses a file: it exports the file's own age.
std::string prometheus_text(const Verdict&);

}  // namespace shakedown
