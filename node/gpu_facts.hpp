// Facts about one GPU and its NVLinks, as NVML gives them: what it is, and whether it is well. What NVML does not tell
// is unknown, with NVML's reason as the explanation.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "node/fact.hpp"
#include "node/kernel_log.hpp"
#include "node/nvml.hpp"

namespace shakedown {

/// gpu (its name), uuid, serial, pci, vbios, memory_gb, modes, errors, PCIe, clocks, power, temperature. `xids` are
/// those of the whole host; nothing if no log could be read.
Facts gpu_facts(const NvmlGpu&, const std::optional<std::vector<Xid>>& xids, const std::filesystem::path& root);

/// processes: how many use the GPU, with their numbers and memory.
Fact process_fact(const NvmlGpu&);

/// nvlinks, nvlinks_up, nvlink_gb_per_s (one way, of all that are up), nvlink_errors, fabric, fabric_trouble.
Facts nvlink_facts(const NvmlGpu&);

/// One row for each link: link, active, gb_per_s, replays, recoveries, crc_errors. Nothing where NVML does not tell.
std::optional<std::vector<Facts>> each_nvlink(const NvmlGpu&);

}  // namespace shakedown
