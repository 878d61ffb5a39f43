// Always returns a verdict: the judge runs in a child process, and if it crashes, the raw rows decide.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/time_limits.hpp"
#include "report/arguments.hpp"

namespace shakedown {

/// Forks a child process of this name. Returns nullopt in the child, which continues the program. The parent waits for
/// it and exits with its exit code. If a signal or the time limit ends the child, returns why ("died of SIGSEGV"). If
/// no process can be started, returns nullopt in this process.
std::optional<std::string> continue_in_child(const char* name, Seconds limit = time_limits().judging);

/// Runs `work` in a child process. Returns how the child died; nullopt if `work` returned or threw.
std::optional<std::string> death_of(const char* name, const std::function<void()>& work,
                                    Seconds limit = time_limits().judging);

/// Returns the result of `judge`, in a child process that shows it and continues as the program. If the child dies,
/// returns the verdict of the raw rows in another child process, and if that dies too, an empty verdict.
Judged judge_apart(const Arguments&, const std::function<Judged()>& judge);
/// Calls judge_apart with judge(Arguments).
Judged judge_apart(const Arguments&);

/// Returns judge(Arguments) if a trial of the same judgement in a child process succeeded, else the verdict of the raw
/// rows. For a program that must continue afterwards.
Judged judge_after_trial(const Arguments&);

/// Returns the verdict without a judge: FAIL if a row has wrong data or a device error, else INCOMPLETE. Each row with
/// an error becomes a finding. `died` says how the judge died. Errors: InputError for unreadable results.
Judged judged_by_raw_rows(const Arguments&, const std::string& died);

}  // namespace shakedown
