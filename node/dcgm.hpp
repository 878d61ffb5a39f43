// What NVIDIA's own test says of a host, from what `dcgmi diag --run N --json` prints. Its levels: 1 asks whether
// software and settings are in order, some seconds; 2 copies and small loads, about 2 minutes; 3 load on everything, 15
// to 30.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "node/fact.hpp"

namespace shakedown {

/// Seconds that a level gets where one benchmark gets so many: five minutes, fifteen and an hour, usually.
double dcgm_limit(int level, double timeout);

struct DcgmReport {
  struct Result {
    std::optional<int> gpu;  // as DCGM counts them; nothing: of the host
    bool failed;             // no: it warns
    std::string text;
  };
  std::string trouble;  // why there is none, in one line; empty: it is whole
  std::string version;
  std::vector<Result> results;         // those that are no pass
  std::set<int> tested;                // GPUs of which a test that ran speaks
  std::map<int, std::string> serials;  // of GPUs
};

/// Of the output of a run at this level. Whatever is no whole report of tests that ran is trouble.
DcgmReport read_dcgm(const CommandOutput&, int level);

/// Of the host with these GPUs (their facts, in the order of NVML): dcgm_answers (1, or 0 and the trouble),
/// dcgm_version, and dcgm_failed and dcgm_warned, tests that speak of the host, or of a GPU that no rank has.
Facts dcgm_host_facts(const DcgmReport&, const std::vector<Facts>& gpus, const std::set<std::size_t>& of_ranks);
/// Of one GPU of them: dcgm_answers, dcgm_failed and dcgm_warned, in DCGM's words.
Facts dcgm_gpu_facts(const DcgmReport&, const std::vector<Facts>& gpus, std::size_t gpu);

}  // namespace shakedown
