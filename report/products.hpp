// How a run's matrix products divide their results among the multiprocessors of a GPU.
#pragma once

#include <string>
#include <vector>

#include "base/text.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// Returns a table with a line for each product that has a chosen algorithm, those with the most operations first;
/// empty if the run has none.
std::string products_text(const std::vector<Results>&, const Table::Style&);

}  // namespace shakedown
