// A soak as text: how each GPU went over time, and then the verdict.
#pragma once

#include <string>

#include "report/terminal.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown {

/// Everything up to and with the verdict line, which ends the text.
std::string soak_text(const Soak&, const SoakJudgement&, TerminalStyle = {});

}  // namespace shakedown
