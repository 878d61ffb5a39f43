// `accept --for=DURATION`: round after round until the time is over, each a run of its own, judged after each.
#pragma once

#include <filesystem>

#include "launch/job.hpp"
#include "launch/measure.hpp"
#include "launch/options.hpp"
#include "report/outputs.hpp"
#include "report/reason.hpp"

namespace shakedown {

/// Ranks were started, and no family has a result; the text says which rank died, if the launcher does.
struct NothingMeasured : CannotRun {
  using CannotRun::CannotRun;
};

/// A run, from its measurements to its verdict by `judge`, in its folder. `start` tells which hosts are expected, and
/// learns which are lost. After a signal, or if ranks cannot be started any more, the families on disk are judged, and
/// the folder says that the run broke off. Errors: CannotRun if nothing is on disk.
Judged judge_run(const AcceptOptions&, Launch& start, const Programs&, RunFolder&, Signals&,
                 Judged (*judge)(const Arguments&));

/// The exit code. The folder of the soak holds rounds.jsonl (thresholds/soak/soak.hpp), rounds/ with the last runs,
/// kept/ with the first and those that failed first, and verdict.json at the end. A round that cannot be measured is a
/// round with its finding. After a signal the rounds so far are judged, and --resume goes on. Errors: CannotRun if
/// there is none.
int soak(const AcceptOptions&, const Programs&, const ReasonChannel&, Signals&);

/// Returns the flags with which a resumed soak began, replaced by those in `words`.
std::vector<std::string> with_flags_of_watch(const AcceptOptions&, const std::vector<std::string>& words);

/// Whether a soak is in this folder.
bool is_watch(const std::filesystem::path& folder);

/// Judges the rounds of a soak again and prints the result. Returns the exit code.
int report_watch(const std::filesystem::path& folder, const Arguments&, const ReasonChannel&);

}  // namespace shakedown
