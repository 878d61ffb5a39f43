// The data of the HTML page: the verdict, and the figures that figures.js draws.
#pragma once

#include <nlohmann/json.hpp>

#include "report/judged.hpp"

namespace shakedown {

/// Returns verdict.json without what the page does not show, names for people, the decision for each node, and figures.
/// Without results (a stored verdict) there are no figures.
nlohmann::json page_data(const Judged&);

/// Returns the member "figures": GPUs against each other, copies, rates, clocks, steps and facts.
nlohmann::json figures_data(const Judged&);

/// Returns the rounds of a soak that did not pass, and the GPUs that changed most.
nlohmann::json soak_data(const Soak&, const SoakJudgement&);

}  // namespace shakedown
