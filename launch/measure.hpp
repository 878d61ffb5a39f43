// Measures the families in order, on all ranks, into the folder of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/rank_program.hpp"

namespace shakedown {

/// Writes the result of each family. One program measures all families. If it crashes with a host, another program
/// continues on the remaining hosts, which become the launch; at most three programs run. Missing families then run in
/// programs of their own. Pre-flight runs first; if it fails, nothing else is measured. Prints progress and failures on
/// standard error. Returns why the first family without a result has none; nullopt if all have one or pre-flight
/// failed. Errors: CannotRun after a signal.
std::optional<std::string> measure_families(const AcceptOptions&, Launch&, const Programs&, const RunFolder&, Signals&);

/// Returns the families without a result in this folder.
std::vector<std::string> missing_in(const std::filesystem::path& folder, std::vector<std::string> families);

/// Measures as a rank other than the first, which alone has results and a verdict. Returns the exit code.
int measure_as_rank(const AcceptOptions&, const Launch&, const Programs&, Signals&);

/// The end of the program that measures all families.
struct Together {
  bool something_is_missing = false;  // families without a result that can still be measured
  bool died = false;
  std::vector<std::string> lost;  // lost hosts that the ranks reported
};

/// Runs that program.
Together measure_together(const AcceptOptions&, const Launch&, const Programs&, const std::filesystem::path& folder,
                          const std::string& id, Signals&, Screen&);

/// Measures one family with its own program. Returns and prints why it wrote no result; nullopt if it wrote one.
std::optional<std::string> measure_family(const AcceptOptions&, const Launch&, const Programs&,
                                          const std::filesystem::path& folder, const std::string& id,
                                          const std::string& family, Signals&, Screen&);

/// True if the result of pre-flight permits other measurements; prints the reason if not. Errors: InputError for an
/// unreadable result.
bool preflight_allows(const AcceptOptions&, const std::filesystem::path& folder, const std::string& id);

}  // namespace shakedown
