// A judgement that ends in any case: it runs in a child process, and where that dies, the raw rows answer.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/time_limits.hpp"
#include "report/arguments.hpp"

namespace shakedown {

/// Returns nullopt in a child process of this name, which goes on as the program. This process waits for it: it ends
/// with the exit code of the child or, where a signal or the limit ended the child, returns why ("died of SIGSEGV").
/// Where no process can be started, this one goes on as the child would.
std::optional<std::string> continue_in_child(const char* name, Seconds limit = time_limits().judging);

/// Runs `work` in a child process. Returns why that died; nullopt if it returned or threw.
std::optional<std::string> death_of(const char* name, const std::function<void()>& work,
                                    Seconds limit = time_limits().judging);

/// Returns what `judge` returns, in a child process that shows it and ends as the program. If that dies, returns the
/// verdict of the raw rows in another child process, and if that dies too, an empty one.
Judged judge_apart(const Arguments&, const std::function<Judged()>& judge);
/// The same with judge(Arguments).
Judged judge_apart(const Arguments&);

/// Returns what judge(Arguments) returns if the same judgement has ended well in a child process, else the verdict of
/// the raw rows; for a program that must go on.
Judged judge_after_trial(const Arguments&);

/// Returns the verdict without a judge: FAIL if a row has wrong data or an error of a device, else INCOMPLETE. Each
/// error row is a finding. `died` says what became of the judge. Errors: InputError for results that cannot be read.
Judged judged_by_raw_rows(const Arguments&, const std::string& died);

}  // namespace shakedown
