// Schedulers and operators that promise several hosts by a variable, and how their users start ranks. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/inventory.hpp"

namespace shakedown {

/// Several hosts that a variable of the environment promises.
struct PromisedHosts {
  std::string_view scheduler;  // "Flux"
  std::string said;            // "FLUX_JOB_NNODES=2"
  std::string_view launch;     // the launch prefix that its users write
};

/// Returns the first promise of more than one host in a list or a number of hosts; nullopt if there is none. Lists in
/// files: scheduler_host_file.
std::optional<PromisedHosts> promised_hosts(const Environment&);

/// Returns the host file that the variable of a scheduler names, by variable: PBS_NODEFILE, LSB_DJOB_HOSTFILE, ...
std::optional<std::string> scheduler_host_file(const Environment&);

/// Returns the launch prefix of the scheduler whose variable names the host file; empty if there is none.
std::string_view launch_with_host_file(const Environment&);

}  // namespace shakedown
