// Listens to NCCL's debug log, which alone says how NCCL reaches other ranks.
#pragma once

#include <functional>
#include <string>

#include "kernels/nccl_log.hpp"

namespace shakedown::cuda {

/// Where somebody has set NCCL_DEBUG, other than to VERSION, the log is theirs: it is left as it is, and read if it is
/// detailed enough and goes to a file (NCCL_DEBUG_FILE). Else a temporary file takes it, as detailed as it may be
/// without a line for every operation, which would show in the latency of small messages.
class NcclListener {
 public:
  NcclListener();
  NcclListener(const NcclListener&) = delete;
  NcclListener& operator=(const NcclListener&) = delete;
  ~NcclListener();

  /// Runs the step, and gives what NCCL said meanwhile; nothing where it cannot be heard. The first step has the first
  /// call of NCCL that logs, which reads the settings of the log once and for all.
  NcclLog during(const std::function<void()>& step);

 private:
  std::string file_;  // empty: it cannot be heard
  bool own_ = false, asked_ = false;
  long read_to_ = 0;
};

}  // namespace shakedown::cuda
