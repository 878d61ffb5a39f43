// Facts about a host, except those about its GPUs and networks: processors, memory, limits, disks, system. These facts
// are read below a root folder ("/") without root privileges. A fact that cannot be read is unknown.
#pragma once

#include <filesystem>
#include <optional>

#include "node/fact.hpp"

namespace shakedown {

/// Returns cpu (model), sockets, cores, smt, governor.
Facts cpu_facts(const std::filesystem::path& root);

/// Returns memory_gb, memory_free_gb, numa_nodes, hugepages_gb, transparent_hugepages; 1 GB = 1e9 bytes.
Facts memory_facts(const std::filesystem::path& root);

/// Returns the fact memory_free_gb alone.
std::optional<double> free_memory_gb(const std::filesystem::path& root);

/// Returns facts about the host's DRAM. edac_uncorrected and edac_corrected count errors since the host started and
/// name their memory controllers. dram_mt_per_s is the lowest configured rate of a DIMM, with the DIMMs of each rate.
/// dimms_slow are the DIMMs below the most frequent rate. The rates are in tables of the firmware that only root can
/// read.
Facts dram_facts(const std::filesystem::path& root);

/// Returns memlock ("unlimited" or "65536 bytes", ulimit -l), open_files (ulimit -n), shm_gb, shm_free_gb (/dev/shm).
Facts limit_facts(const std::filesystem::path& root);

/// Returns disk_free_gb and mount ("nfs4 server:/home on /home") of `folder`, which is below `root`.
Facts disk_facts(const std::filesystem::path& root, const std::filesystem::path& folder);

/// Returns kernel, os, clocksource, vendor and product (of the machine, from its firmware), uptime_days, and
/// tasks_in_d_state: the number of processes that wait in the kernel for a second or longer, with their names.
Facts system_facts(const std::filesystem::path& root);

}  // namespace shakedown
