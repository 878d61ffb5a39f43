// The launch with Open MPI's mpirun: its words, the hosts that it is given, and what it needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/hosts.hpp"
#include "launch/launch.hpp"

namespace shakedown {

/// Throws CannotRun. The message ends in the variables that replace this choice, with a launch prefix if there is one.
[[noreturn]] void refuse_launch(const std::string& why, std::string_view launch = "");

/// Returns mpirun with the options that every launch has.
std::vector<std::string> mpirun_words(const LaunchSite&);

/// Returns the host file that a variable of Open MPI 4 or 5 names.
std::optional<std::string> open_mpi_host_file(const Environment&);

/// Returns the name of the host file that a variable gives: the one of Open MPI or of an operator, else the one of
/// another scheduler. If the user's prefix is mpirun with a host file, returns that file.
std::optional<std::string> host_file_of(const Environment&);

/// Returns the hosts of the host file that a variable names, or else of a scheduler's list. Empty if there is neither.
std::vector<HostWithSlots> hosts_of(const LaunchSite&);

/// Makes the launch use mpirun on the expected hosts. If `knows_hosts`, mpirun finds them itself: by the variable of
/// its host file, or as those of a Slurm job.
void use_mpirun(Launch&, const LaunchSite&, const std::vector<std::string>& shape, bool knows_hosts);

/// Throws if mpirun cannot be used for the hosts of this source.
void require_mpirun(const LaunchSite&, const std::string& source, int hosts);

}  // namespace shakedown
