// A line for Nagios and Icinga, whose exit code ci/monitoring/check takes from its second word.
#pragma once

#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns "SHAKEDOWN CRITICAL: FAIL node17 GPU 2 ...|'hbm hbm_gb_per_s'=4110.8;;4100:": the headline, and as
/// performance data the figure of each family with the limit as critical range.
std::string nagios_line(const Verdict&);

}  // namespace shakedown
