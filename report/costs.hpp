// What a run's training steps cost at a price for an hour of a GPU.
#pragma once

#include <string>

#include "base/text.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// Returns what a million units (tokens, or 10^12 operations) cost at this rate per second and GPU: price / (3600 s *
/// rate) * 10^6.
double cost_of_a_million(double price, double rate);

/// Returns a table with a line for each row of a training family: tokens per second of all GPUs, joules per token if
/// the run has them, the cost of a million tokens, and the days and the cost of 10^12 tokens on the GPUs of this run.
/// If the run has no such row, one line that says so.
std::string costs_text(const Benchmarks&, double price, const Table::Style&);

}  // namespace shakedown
