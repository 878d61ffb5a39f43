// A soak as text: the trend of each GPU over time, then the verdict.
#pragma once

#include <string>

#include "report/terminal.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown {

/// Returns the complete text. The text ends with the verdict line.
std::string soak_text(const Soak&, const SoakJudgement&, TerminalStyle = {});

}  // namespace shakedown
