// Parses messages of launchers (ssh, srun, mpirun) about hosts or ranks that do not start.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/job.hpp"
#include "launch/start_faults.hpp"

namespace shakedown {

/// The reason why ranks, or one host, did not start.
struct StartFailure {
  std::optional<StartMatch> known;  // nullopt: not in a table
  std::string line;                 // the launcher's message; of a help text of Open MPI the first sentence

  /// Returns "HOST: LINE (WORD); ACTION", without parts that are unknown or in the line already.
  std::string text() const;
};

/// Returns the reason for a failed start, about `host` if it is given. Prefers known messages, then those of the host,
/// then help texts of Open MPI. nullopt if there is no message.
std::optional<StartFailure> start_failure(const std::vector<std::string>& lines, std::string_view host = "");

/// The reason for a failed start, and the fault if a table knows it.
struct StartCause {
  std::string text;
  std::optional<StartFault> fault = std::nullopt;
};

/// Returns the launcher's message, or else how the launcher ended.
StartCause start_cause(const Ending&, const std::string& launcher, const std::vector<std::string>& lines,
                       std::string_view host = "");

/// A rank that crashed, by the launcher's message.
struct RankDeath {
  int rank = 0;
  std::string host, how;  // "Segmentation fault", "exit code 1"
};

/// Returns the first crashed rank that the launcher names; nullopt if it names none.
std::optional<RankDeath> rank_death(const std::vector<std::string>& lines);

}  // namespace shakedown
