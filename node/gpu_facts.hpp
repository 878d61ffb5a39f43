// Facts about one GPU and its NVLinks from NVML: identity and health. If NVML does not report a fact, it is unknown,
// and its explanation is NVML's reason.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "node/fact.hpp"
#include "node/kernel_log.hpp"
#include "node/nvml.hpp"

namespace shakedown {

/// Returns gpu (its name), uuid, serial, pci, vbios, memory_gb, modes, errors, PCIe, clocks, power, temperature. `xids`
/// are the XIDs of the whole host; nullopt if no log could be read.
Facts gpu_facts(const NvmlGpu&, const std::optional<std::vector<Xid>>& xids, const std::filesystem::path& root);

/// Returns processes: the number of processes that use the GPU, with their ids and memory. The processes in `waiting`
/// are named, but do not count.
Fact process_fact(const NvmlGpu&, const std::vector<int>& waiting = {});

/// Returns nvlinks, nvlinks_up, nvlink_gb_per_s (the sum of all active links in one direction), nvlink_errors, fabric,
/// fabric_trouble.
Facts nvlink_facts(const NvmlGpu&);

/// Returns the facts of each link: link, active, gb_per_s, replays, recoveries, crc_errors. nullopt if NVML does not
/// report links.
std::optional<std::vector<Facts>> each_nvlink(const NvmlGpu&);

}  // namespace shakedown
