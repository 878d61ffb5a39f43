// The time that a scheduler leaves to this job.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/inventory.hpp"

namespace shakedown {

/// Returns the seconds until the job ends. Reads SLURM_JOB_END_TIME or squeue under Slurm, bjobs under LSF, and qstat
/// under PBS. If qstat does not answer, reads PBS_WALLTIME (set by TORQUE), counted from the start of the job. nullopt
/// without a limit or a known scheduler.
std::optional<double> seconds_left(const Environment&, double seconds_since_1970);

/// Returns the seconds of a time as squeue prints it: "2-03:04:05", "3:04:05", "4:05". nullopt for other texts, such as
/// "UNLIMITED".
std::optional<double> seconds_of_squeue(std::string_view text);

/// Returns the seconds of a time as bjobs prints it: hours and minutes until the run limit, "1:05 L". nullopt for other
/// texts, such as "E" and "X", which mark estimates.
std::optional<double> seconds_of_bjobs(std::string_view text);

/// Returns the remaining seconds of a job that `qstat -f` of OpenPBS or TORQUE describes: the limit of its wall time
/// minus the used wall time. nullopt if there is no limit.
std::optional<double> seconds_of_qstat(std::string_view text);

}  // namespace shakedown
