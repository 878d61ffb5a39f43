// The time that a scheduler leaves to this job.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/inventory.hpp"

namespace shakedown {

/// Returns the seconds until the job ends: by SLURM_JOB_END_TIME or squeue; under LSF by bjobs; under PBS by
/// qstat, or else PBS_WALLTIME (of TORQUE), which counts from the start of the job. nullopt without a limit or a known
/// scheduler.
std::optional<double> seconds_left(const Environment&, double seconds_since_1970);

/// Returns the seconds of a time as squeue prints it: "2-03:04:05", "3:04:05", "4:05"; nullopt for "UNLIMITED" and
/// others.
std::optional<double> seconds_of_squeue(std::string_view text);

/// Returns the seconds of a time as bjobs prints it: hours and minutes until the run limit, "1:05 L". nullopt for "E"
/// and "X", which are estimates, and for others.
std::optional<double> seconds_of_bjobs(std::string_view text);

/// Returns the seconds left of a job that `qstat -f` of OpenPBS or TORQUE describes: the limit of its wall time minus
/// the wall time used. nullopt without a limit.
std::optional<double> seconds_of_qstat(std::string_view text);

}  // namespace shakedown
