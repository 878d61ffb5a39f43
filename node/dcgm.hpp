// Results of NVIDIA's own test of a host, from the output of `dcgmi diag --run N --json`. Level 1 checks software and
// settings in some seconds; level 2 runs copies and small loads for about 2 minutes; level 3 loads all components for
// 15 to 30 minutes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "node/fact.hpp"

namespace shakedown {

/// Returns the time limit of a level in seconds. The limit is a multiple of the timeout of one benchmark: by default
/// five minutes, fifteen minutes and an hour.
double dcgm_limit(int level, double timeout);

struct DcgmReport {
  struct Result {
    std::optional<int> gpu;  // GPU in DCGM's numbering; nullopt for a test of the host
    bool failed;             // false: DCGM reports a warning, a setting (severity 5) or something to watch (severity 1)
    std::string text;
  };
  std::string trouble;  // one line with the reason why there is no complete report; empty if it is complete
  std::string version;
  std::vector<Result> results;  // tests that did not pass
  std::set<int> tested;         // GPUs on which a test ran; from level 2 on, a test of hardware
  /// By GPU: tests that ran only on other GPUs; all hardware tests if none ran on this GPU.
  std::map<int, std::vector<std::string>> skipped;
  std::map<int, std::string> serials;  // by GPU: its serial number
};

/// Parses the output of dcgmi at this level. Sets `trouble` unless the output is a complete report of tests that ran.
DcgmReport read_dcgm(const CommandOutput&, int level);

/// Returns facts of a host. `gpus` are the facts of its GPUs in the order of NVML. The facts are dcgm_answers (1, or 0
/// and the trouble), dcgm_version, and dcgm_failed and dcgm_warned for tests of the host or of GPUs without a rank.
Facts dcgm_host_facts(const DcgmReport&, const std::vector<Facts>& gpus, const std::set<std::size_t>& of_ranks);
/// Returns facts of one GPU of the host: dcgm_answers, dcgm_failed and dcgm_warned, with DCGM's messages.
Facts dcgm_gpu_facts(const DcgmReport&, const std::vector<Facts>& gpus, std::size_t gpu);

}  // namespace shakedown
