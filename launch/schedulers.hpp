// Schedulers and operators whose environment variables promise several hosts, and the launch prefix that each needs.
// The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/environment.hpp"

namespace shakedown {

/// A variable of the environment that promises several hosts.
struct PromisedHosts {
  std::string_view scheduler;  // such as "Flux"
  std::string said;            // "FLUX_JOB_NNODES=2"
  std::string_view launch;     // the launch prefix that users of this scheduler need
};

/// Returns the first variable that promises more than one host by a number; nullopt if no variable does. For lists of
/// hosts, see scheduler_hosts.
std::optional<PromisedHosts> promised_hosts(const Environment&);

/// The hosts that a scheduler lists in a file or in a variable.
struct SchedulerHosts {
  std::string source;  // the host file, or the variable that has the list
  std::optional<std::string>
      list;                 // the list in the form of a host file; nullopt if the hosts are in the file `source`
  std::string_view launch;  // the launch prefix that users of this scheduler need
  /// Command that starts another command on a host, as ssh does: "blaunch". nullopt if the program does not start ranks
  /// under this scheduler.
  std::optional<std::string> agent;
};

/// Returns the hosts of the first scheduler whose variable lists hosts: PBS_NODEFILE, LSB_DJOB_HOSTFILE, ...; a file
/// has priority over a list in a variable. nullopt if no variable does.
std::optional<SchedulerHosts> scheduler_hosts(const Environment&);

}  // namespace shakedown
