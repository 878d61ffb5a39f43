// Returns a verdict in every case: the judge runs in a child process, and if it crashes, the verdict is made of the raw
// rows.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/time_limits.hpp"
#include "report/arguments.hpp"

namespace shakedown {

/// Forks a child process of this name. Returns nullopt in the child, which continues the program, while the parent
/// waits and then exits with the child's exit code. If a signal or the time limit ends the child, returns the reason in
/// the parent ("died of SIGSEGV"). If no process can be started, returns nullopt in this process.
std::optional<std::string> continue_in_child(const char* name, Seconds limit = time_limits().judging);

/// Runs `work` in a child process. Returns how the child died; nullopt if `work` returned or threw.
std::optional<std::string> death_of(const char* name, const std::function<void()>& work,
                                    Seconds limit = time_limits().judging);

/// Returns the result of `judge`. The judge runs in a child process, which shows the result and continues as the
/// program. If the child dies, another child returns the verdict of the raw rows; if that dies too, returns an empty
/// verdict.
Judged judge_apart(const Arguments&, const std::function<Judged()>& judge);
/// Calls judge_apart with judge(Arguments).
Judged judge_apart(const Arguments&);

/// Returns judge(Arguments) if the same call succeeded in a child process before, else the verdict of the raw rows.
/// Used by programs that must continue in this process.
Judged judge_after_trial(const Arguments&);

/// Returns the verdict of judge(Arguments), which runs in a child process: the results are read only there. If the
/// child dies, returns the verdict of the raw rows. `settle` changes what was judged before the verdict is taken from
/// it, and must leave the verdict concluded. Errors: those of judge(Arguments).
Verdict verdict_apart(const Arguments&, const std::function<void(Judged&)>& settle);

/// Returns a verdict without the judge: FAIL if a row has wrong data or a device error, else INCOMPLETE. Each row with
/// an error becomes a finding. `died` says how the judge died. Errors: InputError for unreadable results.
Judged judged_by_raw_rows(const Arguments&, const std::string& died);

}  // namespace shakedown
