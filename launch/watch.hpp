// `accept --for=DURATION`: round after round until the time is over, each a run of its own, judged after each.
#pragma once

#include <filesystem>

#include "launch/job.hpp"
#include "launch/measure.hpp"
#include "launch/options.hpp"
#include "report/outputs.hpp"
#include "report/reason.hpp"

namespace shakedown {

/// A run, from its measurements to its verdict by `judge`, in its folder. `start` tells who is expected, and learns who
/// is lost. Errors: CannotRun where nothing was measured.
Judged judge_run(const FrontDoor&, Launch& start, const Programs&, const RunFolder&, Signals&,
                 Judged (*judge)(const Arguments&));

/// The exit code. The folder of the watch holds rounds.jsonl (thresholds/watch.hpp), rounds/ with the last runs, kept/
/// with the first and those that failed first, and verdict.json at the end. Errors: CannotRun after a signal: --resume
/// goes on.
int watch(const FrontDoor&, const Programs&, const ReasonChannel&, Signals&);

/// What a watch that goes on was asked for when it began, and `words` in the place of what they say anew.
std::vector<std::string> with_flags_of_watch(const FrontDoor&, const std::vector<std::string>& words);

/// Whether a watch is in this folder.
bool is_watch(const std::filesystem::path& folder);

/// What is there of a watch, judged again and printed. The exit code.
int report_watch(const std::filesystem::path& folder, const Arguments&, const ReasonChannel&);

}  // namespace shakedown
