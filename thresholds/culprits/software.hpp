// Finds software that explains why a row is slow or was not measured: a fallback, or a library that is missing or too
// old. Software has priority over the network and the hardware as a cause, because these rows would otherwise be
// evidence against them. The functions are pure.
#pragma once

#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// Returns the benchmarks in which no rank used a fallback. The values of these benchmarks depend on the hardware only.
Benchmarks without_fallbacks(const Benchmarks&);

/// Returns the benchmarks in which all ranks used the same software, even if it was a fallback. The ranks of these
/// benchmarks can be compared with each other.
Benchmarks of_equal_software(const Benchmarks&);

/// Returns the findings about the machine, and about benchmarks that are in `benchmarks`.
std::vector<Finding> findings_about(const Benchmarks& without_fallback, const Benchmarks& all,
                                    const std::vector<Finding>&);

/// Adds the suspects whose cause is software. These suspects are placed after wrong data and before all other suspects.
std::vector<Diagnosis> with_software(std::vector<Diagnosis>, const Benchmarks&, const std::vector<Finding>&);

}  // namespace shakedown
