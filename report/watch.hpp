// A watch as text: how each GPU went over time, and then the verdict.
#pragma once

#include <string>

#include "report/terminal.hpp"
#include "thresholds/soak/watch.hpp"

namespace shakedown {

/// Everything up to and with the verdict line, which ends the text.
std::string watch_text(const Watch&, const WatchJudgement&, TerminalStyle = {});

}  // namespace shakedown
