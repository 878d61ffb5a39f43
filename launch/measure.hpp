// Measures the families in order, on all ranks, into the folder of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/rank_program.hpp"

namespace shakedown {

/// Writes the result of each family. One program measures all families. If it crashes because a host was lost, another
/// program continues on the remaining hosts; then `launch` has these hosts. At most three programs run. After that,
/// each family that has no result runs in a program of its own. Pre-flight runs first; if it fails, nothing else is
/// measured. Prints progress and failures on standard error. Returns why there is no result for the first family that
/// lacks one; nullopt if all families have results or pre-flight failed. Errors: CannotRun after a signal.
std::optional<std::string> measure_families(const AcceptOptions&, Launch&, const Programs&, const RunFolder&, Signals&);

/// Returns the families without a result in this folder.
std::vector<std::string> missing_in(const std::filesystem::path& folder, std::vector<std::string> families);

/// Measures as one of the ranks other than the first. Only the first rank has results and a verdict. Returns the exit
/// code.
int measure_as_rank(const AcceptOptions&, const Launch&, const Programs&, Signals&);

/// How the program ended that measures all families.
struct Together {
  bool something_is_missing = false;  // families without a result that can still be measured
  bool died = false;
  std::vector<std::string> lost;  // hosts that the ranks reported as lost
  std::string why_unfit;          // why these hosts cannot measure; empty if they began to measure
};

/// Runs the program that measures all families.
Together measure_together(const AcceptOptions&, const Launch&, const Programs&, const std::filesystem::path& folder,
                          const std::string& id, Signals&, Screen&);

/// Measures one family with its own program. If that program wrote no result, prints and returns the reason; else
/// returns nullopt.
std::optional<std::string> measure_family(const AcceptOptions&, const Launch&, const Programs&,
                                          const std::filesystem::path& folder, const std::string& id,
                                          const std::string& family, Signals&, Screen&);

/// True if other measurements may follow the result of pre-flight. If not, prints the reason. Errors: InputError for an
/// unreadable result.
bool preflight_allows(const AcceptOptions&, const std::filesystem::path& folder, const std::string& id);

}  // namespace shakedown
