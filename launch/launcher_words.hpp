// Parses messages of launchers (ssh, srun, mpirun) about ranks that crash, and about hosts or ranks that do not start.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/job.hpp"
#include "launch/start_faults.hpp"

namespace shakedown {

/// Why the ranks, or the processes of one host, did not start.
struct StartFailure {
  std::optional<StartMatch> known;  // nullopt if no table has this message
  std::string line;                 // the launcher's message; for a help text of Open MPI, its first sentence

  /// Returns "HOST: LINE (WORD); ACTION". Omits a part that is unknown or already in the line.
  std::string text() const;
};

/// Returns the reason for a failed start; if `host` is given, the reason for this host. Messages that a table knows
/// have priority, then messages about the host, then help texts of Open MPI. nullopt if there is no message.
std::optional<StartFailure> start_failure(const std::vector<std::string>& lines, std::string_view host = "");

/// The reason for a failed start, and the kind of fault if a table knows the message.
struct StartCause {
  std::string text;
  std::optional<StartFault> fault = std::nullopt;
};

/// Returns the launcher's message. If there is none, returns how the launcher ended.
StartCause start_cause(const Ending&, const std::string& launcher, const std::vector<std::string>& lines,
                       std::string_view host = "");

/// A rank that crashed, as the launcher reports it.
struct RankDeath {
  int rank = 0;
  std::string host, how;  // `how` is "Segmentation fault" or "exit code 1"
};

/// Returns the first crashed rank that the launcher names; nullopt if it names none.
std::optional<RankDeath> rank_death(const std::vector<std::string>& lines);

}  // namespace shakedown
