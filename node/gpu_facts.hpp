// Facts about one GPU and its NVLinks from NVML: its identity and health. A fact that NVML does not report is unknown,
// with NVML's reason as the explanation.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "node/fact.hpp"
#include "node/kernel_log.hpp"
#include "node/nvml.hpp"

namespace shakedown {

/// Returns gpu (its name), uuid, serial, pci, vbios, memory_gb, modes, errors, PCIe, clocks, power, temperature. `xids`
/// are those of the whole host; nullopt if no log could be read.
Facts gpu_facts(const NvmlGpu&, const std::optional<std::vector<Xid>>& xids, const std::filesystem::path& root);

/// Returns processes: the number of processes that use the GPU, with their ids and memory.
Fact process_fact(const NvmlGpu&);

/// Returns nvlinks, nvlinks_up, nvlink_gb_per_s (one direction, sum of active links), nvlink_errors, fabric,
/// fabric_trouble.
Facts nvlink_facts(const NvmlGpu&);

/// Returns one row per link: link, active, gb_per_s, replays, recoveries, crc_errors; nullopt if NVML does not report
/// links.
std::optional<std::vector<Facts>> each_nvlink(const NvmlGpu&);

}  // namespace shakedown
