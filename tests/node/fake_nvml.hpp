// A simulated NVML for tests: a shared object with answers from a text file, which SHAKEDOWN_FAKE_NVML names and which
// is read at each call. Set its path in SHAKEDOWN_NVML, or pass it to the constructor of Nvml.
//
//   gpus 2                                       number of GPUs; their UUIDs are GPU-fake-0, GPU-fake-1, their PCI
//   driver 580.1                                 addresses 0000:10:00.0, 0000:11:00.0
//   0 nvmlDeviceGetPowerUsage 691000             GPU, function, answer; "*" is every GPU; the last match applies
//   * nvmlDeviceGetClockInfo:1 1980|1410|1405    :1 is the argument; "|" separates the answers to successive calls,
//                                                the last one repeats
//   * nvmlDeviceGetRemappedRows 1 2 0 0          several values if the function has several
//   * field:164:3 26562                          a field with its scope
//   1 nvmlDeviceGetName lost                     or unsupported, no_permission, hangs
//   0 nvmlDeviceGetComputeRunningProcesses 4321,2000000000 77,unknown
//   0 xid none|79                                successive answers to a caller that waits for events
//
// A query without a line is not supported.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/nvml_abi.hpp"

namespace shakedown::fake_nvml {

/// The words of the next answer to a query about a GPU, or a status if the file gives one.
struct Reply {
  nvml_abi::Return status;
  std::vector<std::string> words;
  nvml_abi::Size number(std::size_t word = 0) const;
};
Reply ask(nvml_abi::Device, const std::string& question);

nvml_abi::Return processes(nvml_abi::Device, unsigned* count, nvml_abi::ProcessInfo*);

}  // namespace shakedown::fake_nvml
