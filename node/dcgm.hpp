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

/// Returns the time limit of a level in seconds, derived from the timeout of one benchmark: usually five minutes,
/// fifteen minutes and an hour.
double dcgm_limit(int level, double timeout);

struct DcgmReport {
  struct Result {
    std::optional<int> gpu;  // in DCGM's numbering; nullopt for the host
    bool failed;             // false: a warning, or a setting (DCGM's severity 5) or something to watch (1)
    std::string text;
  };
  std::string trouble;  // one line explaining why there is no report; empty if it is complete
  std::string version;
  std::vector<Result> results;  // tests that did not pass
  std::set<int> tested;         // GPUs covered by a test that ran; from level 2 on, a test of hardware
  std::map<int, std::vector<std::string>> skipped;  // by GPU: tests that ran on another GPU, or all of hardware
  std::map<int, std::string> serials;               // by GPU
};

/// Parses the output of a run at this level. Any output that is not a complete report of tests that ran sets `trouble`.
DcgmReport read_dcgm(const CommandOutput&, int level);

/// Returns facts of a host with these GPUs (their facts, in the order of NVML): dcgm_answers (1, or 0 and the trouble),
/// dcgm_version, and dcgm_failed and dcgm_warned for tests of the host or of GPUs without a rank.
Facts dcgm_host_facts(const DcgmReport&, const std::vector<Facts>& gpus, const std::set<std::size_t>& of_ranks);
/// Returns facts of one of its GPUs: dcgm_answers, dcgm_failed and dcgm_warned, with DCGM's messages.
Facts dcgm_gpu_facts(const DcgmReport&, const std::vector<Facts>& gpus, std::size_t gpu);

}  // namespace shakedown
