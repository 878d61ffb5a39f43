// Reads what launchers (ssh, srun, mpirun) say on standard error when a host or a rank does not start.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/job.hpp"
#include "launch/start_faults.hpp"

namespace shakedown {

/// Why ranks did not start, or why one host did not.
struct StartFailure {
  std::optional<StartMatch> known;  // nullopt: no table has this sentence
  std::string line;                 // of the launcher; of a help text of Open MPI its first sentence

  /// "HOST: LINE (WORD); ACTION", each where it is known and where the line does not say it.
  std::string text() const;
};

/// Returns what a launcher says about a start that failed, about one host where that is given: a known sentence before
/// any other, and a help text of Open MPI after what the host itself says. nullopt if it says nothing.
std::optional<StartFailure> start_failure(const std::vector<std::string>& lines, std::string_view host = "");

/// Why a start failed, and the fault if a table knows it.
struct StartCause {
  std::string text;
  std::optional<StartFault> fault = std::nullopt;
};

/// Returns what the launcher says, else how it ended.
StartCause start_cause(const Ending&, const std::string& launcher, const std::vector<std::string>& lines,
                       std::string_view host = "");

/// A rank that a launcher says has died.
struct RankDeath {
  int rank = 0;
  std::string host, how;  // "Segmentation fault", "exit code 1"
};

/// Returns the first rank that the launcher names as dead; nullopt if it names none.
std::optional<RankDeath> rank_death(const std::vector<std::string>& lines);

}  // namespace shakedown
