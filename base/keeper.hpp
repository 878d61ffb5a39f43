// The process that must answer. It starts another one for all work, and itself calls nothing that may not return: it
// reads a clock, signals and shared memory, and writes to descriptors that are open already.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/time_limits.hpp"

namespace shakedown {

struct Keeping {
  /// How long the work may take in all.
  std::optional<Seconds> limit = std::nullopt;
  /// Whether the work takes SIGINT, SIGTERM and SIGHUP itself and then answers; else they end it, and this process in
  /// the same way.
  bool answers_signals = false;
  /// Called in this process if the work cannot answer: with one line that says why. Returns the exit code. It must make
  /// no call that may not return.
  std::function<int(const std::string& why)> answer = {};
};

/// Runs `work` in a child process and returns its exit code, or that of `answer`: if a call of the work does not return
/// within its limit, if the work dies of a signal, shows no progress, takes longer than its limit, or does not end
/// after a signal. The child is then killed. If even SIGKILL does not end it, it is left alone and its supervisors are
/// ended. Where no process can be started, runs `work` here.
int keep(const Keeping&, const std::function<int()>& work);

}  // namespace shakedown
