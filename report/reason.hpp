// The one-line reason on file descriptor 3, as check runners for clusters read it (soperator's, for a drained node).
#pragma once

#include <cstdio>
#include <string>

#include "base/exit_code.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// "PASS 58/58: gemm, hbm judged by h200-sxm on 4 ranks",
/// "FAIL 57/58: gemm/... tflops 600 TFLOPS, limit min 620, rank 3 node0 GPU-1003 (and 2 more)". One line, no newline.
std::string reason_line(const Verdict&);

/// "error: what could not be read, and what to do": the last line where there is no verdict. One line, no newline.
std::string error_line(const std::string& why);

/// File descriptor 3, if somebody opened it for writing before this program started. To be asked for first of all: the
/// next file that the program opens may get that number.
class ReasonChannel {
 public:
  ReasonChannel();
  /// Writes the line, if there is anybody to read it. That nobody reads is no error.
  void give(const std::string& line) const;

 private:
  bool open_ = false;
};

/// Says on standard error, and to `channel`, why there is no verdict. Trouble inside the program, unlike wrong usage,
/// is a verdict all the same, INCOMPLETE, whose line goes to `verdict_to`. Either may be null.
void say_no_verdict(const Failure&, const char* program, const ReasonChannel* channel, std::FILE* verdict_to);

}  // namespace shakedown
