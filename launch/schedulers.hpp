// Schedulers and operators whose environment variables promise several hosts, and the launch prefix that each needs.
// The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/inventory.hpp"

namespace shakedown {

/// A variable of the environment that promises several hosts.
struct PromisedHosts {
  std::string_view scheduler;  // such as "Flux"
  std::string said;            // "FLUX_JOB_NNODES=2"
  std::string_view launch;     // the launch prefix that users of this scheduler need
};

/// Returns the first variable that promises more than one host by a list or a number; nullopt if no variable does. For
/// lists in files, see scheduler_host_file.
std::optional<PromisedHosts> promised_hosts(const Environment&);

/// Returns the host file that a scheduler's variable names. The variables are PBS_NODEFILE, LSB_DJOB_HOSTFILE, ...
std::optional<std::string> scheduler_host_file(const Environment&);

/// Returns the launch prefix for the scheduler whose variable names a host file. Empty if no variable does.
std::string_view launch_with_host_file(const Environment&);

}  // namespace shakedown
