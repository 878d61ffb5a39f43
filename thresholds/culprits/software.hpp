// Software that explains what is slow or was not measured: a fallback, or a library that is missing or too old. It
// comes before the network and the hardware, which the same rows would accuse. Pure.
#pragma once

#include <vector>

#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// Returns the benchmarks in which no fallback ran: what they show is of the hardware.
Benchmarks without_fallbacks(const Benchmarks&);

/// Returns the benchmarks in which all ranks used the same software, be it a fallback: ranks can be compared there.
Benchmarks of_equal_software(const Benchmarks&);

/// Returns the findings of benchmarks that are in `benchmarks`, and of the machine.
std::vector<Finding> findings_about(const Benchmarks& without_fallback, const Benchmarks& all,
                                    const std::vector<Finding>&);

/// Adds the suspects whose cause is software, after wrong data and before all others.
std::vector<Diagnosis> with_software(std::vector<Diagnosis>, const Benchmarks&, const std::vector<Finding>&);

}  // namespace shakedown
