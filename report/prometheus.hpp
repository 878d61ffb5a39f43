// A verdict as Prometheus text, for the textfile collector of node_exporter and for GitLab's reports:metrics.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns gauges in base units: shakedown_pass, the verdict, the start of the run, the culprits by host and UUID,
/// shakedown_findings by status, and the measured value and limit of every finding. Labels whose values change with the
/// verdict occur only on gauges that no alert uses. Writes no time stamps, because the collector rejects files with
/// them.
std::string prometheus_text(const Verdict&);

}  // namespace shakedown
