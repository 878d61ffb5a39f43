// A line for Nagios and Icinga. ci/monitoring/check derives the exit code from the second word of the line.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns "SHAKEDOWN CRITICAL: FAIL node17 GPU 2 ...|'hbm hbm_gb_per_s'=4110.8;;4100:". The text is the headline. The
/// performance data have the figure of each family, with its limit as the critical range.
std::string nagios_line(const Verdict&);

}  // namespace shakedown
