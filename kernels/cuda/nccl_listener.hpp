// Listens to NCCL's debug log while peers are connected, and only then: a line for every operation would show in the
// latency of small messages.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nccl_log.hpp"

namespace shakedown::cuda {

/// Where somebody has set NCCL_DEBUG, other than to VERSION, the log is theirs: it is left as it is, and read if it is
/// detailed enough and goes to a file (NCCL_DEBUG_FILE). Else a temporary file takes it, for the time of a step.
class NcclListener {
 public:
  NcclListener();
  NcclListener(const NcclListener&) = delete;
  NcclListener& operator=(const NcclListener&) = delete;
  ~NcclListener();

  /// Runs the step, and gives what NCCL said meanwhile; nothing where it cannot be heard. The first step has the first
  /// call of NCCL that logs.
  NcclLog during(const std::function<void()>& step);

 private:
  /// constant: a version that reads its settings once; it stays as detailed as it may be without a line per operation.
  enum class Way { none, switched, constant, of_user };

  void switch_on() const;
  void switch_off() const;

  Way way_ = Way::none;
  std::string file_;
  long read_to_ = 0;
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

}  // namespace shakedown::cuda
