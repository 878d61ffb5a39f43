// Writes a one-line reason to file descriptor 3 for the check runners of clusters (soperator drains a node with this
// reason).
#pragma once

#include <cstdio>
#include <string>

#include "base/exit_code.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns the last line of a program that has no verdict: "error: what could not be read; how to fix it". Without a
/// newline.
std::string error_line(const std::string& why);

/// File descriptor 3, if the caller opened it for writing before this program started. Construct it before the program
/// opens any file, because that file could get the number 3.
class ReasonChannel {
 public:
  ReasonChannel();
  /// Writes the line if the descriptor is open. A closed reader is not an error.
  void give(const std::string& line) const;

 private:
  bool open_ = false;
};

/// Reports on standard error and on `channel` why there is no verdict. An internal error also gives the verdict
/// INCOMPLETE, whose line goes to `verdict_to`; wrong usage does not. Either pointer can be null.
void say_no_verdict(const Failure&, const char* program, const ReasonChannel* channel, std::FILE* verdict_to);

}  // namespace shakedown
