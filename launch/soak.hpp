// `accept --for=DURATION`: measures and judges one run after another until the time has passed.
#pragma once

#include <filesystem>

#include "launch/job.hpp"
#include "launch/measure.hpp"
#include "launch/options.hpp"
#include "report/outputs.hpp"
#include "report/reason.hpp"

namespace shakedown {

/// Thrown if ranks were started but no family has a result. The text names the crashed rank, if the launcher does.
struct NothingMeasured : CannotRun {
  using CannotRun::CannotRun;
};

/// Measures a run into its folder and judges it with `judge`. `start` has the expected hosts and receives the lost
/// ones. After a signal, or if ranks cannot be started any more, judges the families on disk and marks the run as
/// aborted. Errors: CannotRun if there is no result.
Judged judge_run(const AcceptOptions&, Launch& start, const Programs&, RunFolder&, Signals&,
                 Judged (*judge)(const Arguments&));

/// Runs a soak and returns the exit code. Its folder has rounds.jsonl (thresholds/soak/soak.hpp), rounds/ with the last
/// runs, kept/ with the first run and failed runs, and at the end verdict.json. A round that cannot be measured becomes
/// a round with a finding. After a signal the rounds so far are judged; --resume continues. Errors: CannotRun if there
/// are none.
int soak(const AcceptOptions&, const Programs&, const ReasonChannel&, Signals&);

/// Returns the flags with which a resumed soak began, replaced by those in `words`.
std::vector<std::string> with_flags_of_watch(const AcceptOptions&, const std::vector<std::string>& words);

/// True if a folder contains a soak.
bool is_watch(const std::filesystem::path& folder);

/// Judges the rounds of a soak again and prints the result. Returns the exit code.
int report_watch(const std::filesystem::path& folder, const Arguments&, const ReasonChannel&);

}  // namespace shakedown
