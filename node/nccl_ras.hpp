// The state of the NCCL jobs on this host, by NCCL's RAS service. Since NCCL 2.24, each job listens at a port of the
// loopback address for text commands (NVIDIA/nccl, src/ras/client.cc; "RAS" in NCCL's user guide).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_activity.hpp"

namespace shakedown {

/// NCCL's port, unless NCCL_RAS_ADDR sets another.
inline constexpr int usual_ras_port = 28028;

/// The problem of a service that accepts connections and does not answer.
inline constexpr const char* ras_is_silent = "RAS did not answer";

/// Where a job may listen: numeric addresses, of which the first that accepts a connection is used.
struct RasAddress {
  std::vector<std::string> hosts{"127.0.0.1", "::1"};  // localhost is one of the two, as the host is set up
  int port = usual_ras_port;
};

/// Returns the address in a value of NCCL_RAS_ADDR: "localhost:28028", "10.0.0.1:28028" or "[::1]:28028". A part that
/// is missing or wrong has NCCL's default.
RasAddress ras_address_in(std::string_view value);

/// Asks the service for its status. nullopt if no job listens; a state with a problem if the service does not answer
/// within `limit`. All processes of the job exchange messages for this, so it must not be called every second.
std::optional<RasState> ras_state(std::chrono::milliseconds limit, const RasAddress& = {});

/// Returns the state that the text of NCCL's command STATUS describes. Keeps the first lines of each section.
RasState ras_state_in(std::string_view text);

}  // namespace shakedown
