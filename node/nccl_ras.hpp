// The state of the NCCL jobs on this host, by NCCL's RAS service. Since NCCL 2.24, each job listens at a port of the
// loopback address for text commands (NVIDIA/nccl, src/ras/client.cc; "RAS" in NCCL's user guide).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/host_activity.hpp"

namespace shakedown {

/// NCCL's port, unless NCCL_RAS_ADDR sets another.
inline constexpr int usual_ras_port = 28028;

/// Asks the service for its status; nullopt if no job listens or the answer takes longer than `limit`. All processes of
/// the job exchange messages for this, so it must not be called every second.
std::optional<RasState> ras_state(std::chrono::milliseconds limit, int port = usual_ras_port);

/// Returns the state that the text of NCCL's command STATUS describes. Keeps the first lines of each section.
RasState ras_state_in(std::string_view text);

}  // namespace shakedown
