// The name of this host.
#pragma once

#include <string>

#include "base/environment.hpp"

namespace shakedown {

/// Returns the name that the system gives to this host.
std::string system_host_name();

/// Returns the name that results give to this host instead: SHAKEDOWN_HOST, by which a test simulates hosts, else
/// SHAKEDOWN_NODE, the node of a pod; nullopt without either.
std::optional<std::string> given_host_name(const Environment&);

/// Returns the name that results give to this host.
std::string host_name(const Environment&);

}  // namespace shakedown
