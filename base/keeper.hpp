// The process that must always answer. It runs all work in a child process, and makes no call that may block forever.
// It reads a clock, signals and shared memory, and writes to descriptors that are already open.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/time_limits.hpp"

namespace shakedown {

struct Keeping {
  /// Maximum run time of the work.
  std::optional<Seconds> limit = std::nullopt;
  /// True if the work handles SIGINT, SIGTERM and SIGHUP itself and then answers. Otherwise these signals end the work,
  /// and this process ends in the same way.
  bool answers_signals = false;
  /// Called in this process if the work cannot answer, with one line that says why. Returns the exit code. Must not
  /// make calls that may block forever.
  std::function<int(const std::string& why)> answer = {};
};

/// Runs `work` in a child process and returns its exit code. Kills the child and returns the result of `answer` in
/// these cases: the work exceeds its limit, makes no progress, dies of a signal, or does not end after one; or one of
/// its calls exceeds its own limit. If even SIGKILL does not end the child, it is abandoned and its supervisors are
/// ended. If no process can be started, `work` runs in this process.
int keep(const Keeping&, const std::function<int()>& work);

/// Runs `work`, which may never return, in a child process with a short limit; false if it does not return. If no
/// process can be started, it runs in this one.
bool try_shortly(const std::function<void()>& work);

}  // namespace shakedown
