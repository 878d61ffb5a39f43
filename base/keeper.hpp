// The keeper: the process that must always answer. All work runs in its child process. The keeper itself makes no call
// that may block forever: it reads a clock, signals and shared memory, and writes to descriptors that are already open.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/time_limits.hpp"

namespace shakedown {

struct Keeping {
  /// Maximum run time of the work; nullopt: no limit.
  std::optional<Seconds> limit = std::nullopt;
  /// True if the work itself handles SIGINT, SIGTERM and SIGHUP and then gives an answer. If false, these signals end
  /// the work, and this process ends by the same signal.
  bool answers_signals = false;
  /// Called in this process if the work cannot answer. `why` is one line with the reason. Returns the exit code. Must
  /// not make calls that may block forever.
  std::function<int(const std::string& why)> answer = {};
};

/// Runs `work` in a child process and returns its exit code. In these cases, kills the child and returns the result of
/// `answer`: the work exceeds its limit, makes no progress, dies of a signal, or does not end after a signal; or one of
/// its calls exceeds the limit of that call. If even SIGKILL does not end the child, the keeper no longer waits for it
/// and ends its supervisors. If no process can be started, `work` runs in this process.
int keep(const Keeping&, const std::function<int()>& work);

/// Runs `work` in a child process with a short time limit, because it may never return. False if it does not return in
/// time. If no process can be started, it runs in this one.
bool try_shortly(const std::function<void()>& work);

}  // namespace shakedown
