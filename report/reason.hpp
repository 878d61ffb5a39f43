// The one-line reason on file descriptor 3, for check runners of clusters (soperator drains a node with this reason).
#pragma once

#include <cstdio>
#include <string>

#include "base/exit_code.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns the last line if there is no verdict: "error: what could not be read; how to fix it". No newline.
std::string error_line(const std::string& why);

/// File descriptor 3, if the caller opened it for writing before this program started. Construct it first: the next
/// file that the program opens can get this number.
class ReasonChannel {
 public:
  ReasonChannel();
  /// Writes the line if the descriptor is open. A closed reader is not an error.
  void give(const std::string& line) const;

 private:
  bool open_ = false;
};

/// Reports on standard error and on `channel` why there is no verdict. An internal error, unlike wrong usage, gives the
/// verdict INCOMPLETE, and its line goes to `verdict_to`. Either pointer can be null.
void say_no_verdict(const Failure&, const char* program, const ReasonChannel* channel, std::FILE* verdict_to);

}  // namespace shakedown
