// A verdict as Prometheus text, for the textfile collector of node_exporter and for GitLab's reports:metrics.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Gauges in base units: shakedown_pass, the verdict, when the run began, who is at fault by host and UUID,
/// shakedown_findings by status, the measured value and the limit of every finding. Labels that change with the verdict
/// belong to nothing that an alert asks for. Without time stamps, with which the collector refuses a file.
std::string prometheus_text(const Verdict&);

}  // namespace shakedown
