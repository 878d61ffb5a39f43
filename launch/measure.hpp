// Measures one family after the other, each on all ranks, into a run's folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/rank_program.hpp"

namespace shakedown {

/// Each family's result in its file: by one program for all; when that dies with a host, by another on the hosts that
/// are left, which the launch then is, at most three in all; what is still missing by programs of its own. Pre-flight
/// comes first; where its rules fail, nothing else is measured. Shows on standard error how it goes, and as results
/// arrive what fails already. Returns why the first family without a result has none; nullopt if all have one, or
/// pre-flight forbids them. Errors: CannotRun after a signal.
std::optional<std::string> measure_families(const AcceptOptions&, Launch&, const Programs&, const RunFolder&, Signals&);

/// This process is a rank that is not the first, which alone has results and a verdict: measures with the others.
/// Returns the exit code.
int measure_as_rank(const AcceptOptions&, const Launch&, const Programs&, Signals&);

/// How the program for all families ended.
struct Together {
  bool something_is_missing = false;  // though it may be measured
  bool died = false;
  std::vector<std::string> lost;  // hosts that the ranks named
};

/// The first part of that.
Together measure_together(const AcceptOptions&, const Launch&, const Programs&, const std::filesystem::path& folder,
                          const std::string& id, Signals&, Screen&);

/// One family, by its own program. Returns why it wrote no result, which is said; nullopt if it wrote one.
std::optional<std::string> measure_family(const AcceptOptions&, const Launch&, const Programs&,
                                          const std::filesystem::path& folder, const std::string& id,
                                          const std::string& family, Signals&, Screen&);

/// Whether pre-flight's result allows to measure on; says so where it does not. Errors: InputError for a result that
/// cannot be read.
bool preflight_allows(const AcceptOptions&, const std::filesystem::path& folder, const std::string& id);

}  // namespace shakedown
