// A made-up NVML, for tests: a shared object whose answers stand in a text file, named by SHAKEDOWN_FAKE_NVML and read
// again at each call. Give its path in SHAKEDOWN_NVML, or to Nvml's constructor.
//
//   gpus 2                                       how many there are; their UUIDs are GPU-fake-0, GPU-fake-1, their PCI
//   driver 580.1                                 addresses 0000:10:00.0, 0000:11:00.0
//   0 nvmlDeviceGetPowerUsage 691000             GPU, function, answer; "*" is every GPU, the last line that fits
//   counts
//   * nvmlDeviceGetClockInfo:1 1980|1410|1405    :1 is the argument; "|" parts the answers to successive calls, the
//   last
//   * nvmlDeviceGetRemappedRows 1 2 0 0          of which stays; several values where the function has several
//   * field:164:3 26562                          a field, with its scope
//   1 nvmlDeviceGetName lost                     or unsupported, no_permission
//   0 nvmlDeviceGetComputeRunningProcesses 4321,2000000000 77,unknown
//   0 xid none|79                                successive answers to whoever waits for events
//
// What no line answers is not supported.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/nvml_abi.hpp"

namespace shakedown::fake_nvml {

/// The words of the next answer to a question about a GPU; a status instead where the file says so.
struct Reply {
  nvml_abi::Return status;
  std::vector<std::string> words;
  nvml_abi::Size number(std::size_t word = 0) const;
};
Reply ask(nvml_abi::Device, const std::string& question);

nvml_abi::Return processes(nvml_abi::Device, unsigned* count, nvml_abi::ProcessInfo*);

}  // namespace shakedown::fake_nvml
