// `accept --for=DURATION`: repeats a run and judges each one until the time has passed.
#pragma once

#include <filesystem>

#include "launch/job.hpp"
#include "launch/measure.hpp"
#include "launch/options.hpp"
#include "report/outputs.hpp"
#include "report/reason.hpp"

namespace shakedown {

/// Thrown if ranks were started but no family has a result. The text names the crashed rank if the launcher names it.
struct NothingMeasured : CannotRun {
  using CannotRun::CannotRun;
};

/// Measures a run into its folder and judges it with `judge`. `start` has the expected hosts, and gets the hosts that
/// were lost. After a signal, or if ranks cannot be started any more, judges the families that have results and marks
/// the run as aborted. Errors: CannotRun if there is no result.
Judged judge_run(const AcceptOptions&, Launch& start, const Programs&, RunFolder&, Signals&,
                 Judged (*judge)(const Arguments&));

/// Runs a soak and returns the exit code. The folder of a soak has rounds.jsonl (thresholds/soak/soak.hpp), rounds/
/// with the last runs, kept/ with the first run and failed runs, and at the end verdict.json. If a round cannot be
/// measured, a finding records it. After a signal the rounds so far are judged, and --resume continues. Errors:
/// CannotRun if there are no rounds.
int soak(const AcceptOptions&, const Programs&, const ReasonChannel&, Signals&);

/// Returns the flags with which a soak began. Flags in `words` have priority over them.
std::vector<std::string> with_flags_of_watch(const AcceptOptions&, const std::vector<std::string>& words);

/// True if a folder contains a soak.
bool is_watch(const std::filesystem::path& folder);

/// Judges the rounds of a soak again and prints the result. Returns the exit code.
int report_watch(const std::filesystem::path& folder, const Arguments&, const ReasonChannel&);

}  // namespace shakedown
