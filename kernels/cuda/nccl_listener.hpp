// Reads NCCL's debug log, the only source for how NCCL reaches other ranks.
#pragma once

#include <functional>
#include <string>

#include "kernels/nccl_log.hpp"

namespace shakedown::cuda {

/// If the user has set NCCL_DEBUG to a value other than VERSION, the log is the user's. This setting is not changed,
/// and the log is read if it is detailed enough and goes to a file (NCCL_DEBUG_FILE). Without such a setting, NCCL logs
/// to a temporary file. The log is as detailed as possible without a line for each operation, which would affect the
/// latency of small messages.
class NcclListener {
 public:
  NcclListener();
  NcclListener(const NcclListener&) = delete;
  NcclListener& operator=(const NcclListener&) = delete;
  ~NcclListener();

  /// Runs the step and returns the log that NCCL wrote meanwhile; empty if it cannot be read. The first step must
  /// contain the first NCCL call that logs, because NCCL reads its log settings only then.
  NcclLog during(const std::function<void()>& step);

 private:
  std::string file_;  // empty if the log cannot be read
  bool own_ = false, asked_ = false;
  long read_to_ = 0;
};

}  // namespace shakedown::cuda
