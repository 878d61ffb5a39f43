// Starts several ranks on this host without a launcher of MPI. They connect over TCP
// (fixtures/ranks/rendezvous.hpp).
#pragma once

#include <string>
#include <vector>

namespace shakedown {

/// Returns the prefix of a command that runs as `count` ranks on this host, of which the first is the rank `first`.
/// `program` is the file of shakedown. The variables WORLD_SIZE and MASTER_ADDR must be set for it; without MASTER_PORT
/// all ranks of the job are on this host, and the prefix chooses a free port and a secret.
std::vector<std::string> local_ranks(const std::string& program, int first, int count);

/// True if a command begins with such a prefix.
bool is_local_ranks(const std::vector<std::string>& command);

/// Starts a command as `COUNT` ranks, of which the first is the rank `FIRST`, and waits for them. If one fails, the
/// others have some seconds to report it before they are ended. Returns the exit code of the first that failed, or 0.
/// The words are FIRST COUNT COMMAND...
int run_ranks_here(const std::vector<std::string>& words);

}  // namespace shakedown
