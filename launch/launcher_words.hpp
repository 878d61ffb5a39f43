// Reads what launchers (ssh, srun, mpirun) say on standard error when a host or a rank does not start. The sentences
// are those of other programs: one table for each program, each row with a stored sample in the tests.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// Returns the line that says why ranks did not start, or why this host did not: a known sentence before any other, and
/// no help text of Open MPI unless there is nothing else. Empty if there is no such line.
std::string start_failure(const std::vector<std::string>& lines, std::string_view host = "");

/// A rank that a launcher says has died.
struct RankDeath {
  int rank = 0;
  std::string host, how;  // "Segmentation fault", "exit code 1"
};

/// Returns the first rank that the launcher names as dead; nullopt if it names none.
std::optional<RankDeath> rank_death(const std::vector<std::string>& lines);

}  // namespace shakedown
