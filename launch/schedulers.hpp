// Schedulers and operators whose variables promise several hosts, and the launch prefixes of their users. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node/inventory.hpp"

namespace shakedown {

/// A variable of the environment that promises several hosts.
struct PromisedHosts {
  std::string_view scheduler;  // "Flux"
  std::string said;            // "FLUX_JOB_NNODES=2"
  std::string_view launch;     // the usual launch prefix
};

/// Returns the first variable that promises more than one host by a list or a number; nullopt if there is none. For
/// lists in files see scheduler_host_file.
std::optional<PromisedHosts> promised_hosts(const Environment&);

/// Returns the host file that the variable of a scheduler names, by variable: PBS_NODEFILE, LSB_DJOB_HOSTFILE, ...
std::optional<std::string> scheduler_host_file(const Environment&);

/// Returns the launch prefix of the scheduler whose variable names the host file; empty if there is none.
std::string_view launch_with_host_file(const Environment&);

}  // namespace shakedown
