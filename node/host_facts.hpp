// Facts about a host, its GPUs and networks aside: processors, memory, limits, disks, system. Read below a root folder
// ("/"), without root rights; what cannot be read is unknown.
#pragma once

#include <filesystem>

#include "node/fact.hpp"

namespace shakedown {

/// cpu (model), sockets, cores, smt, governor.
Facts cpu_facts(const std::filesystem::path& root);

/// memory_gb, memory_free_gb, numa_nodes, hugepages_gb, transparent_hugepages; 1 GB = 1e9 bytes.
Facts memory_facts(const std::filesystem::path& root);

/// memlock ("unlimited" or "65536 bytes", ulimit -l), open_files (ulimit -n), shm_gb, shm_free_gb (/dev/shm).
Facts limit_facts(const std::filesystem::path& root);

/// disk_free_gb and mount ("nfs4 server:/home on /home") of a folder, below the same root.
Facts disk_facts(const std::filesystem::path& root, const std::filesystem::path& folder);

/// kernel, os, clocksource, vendor and product (of the machine, as its firmware says), uptime_days, and
/// tasks_in_d_state: processes that wait in the kernel for a second, with their names.
Facts system_facts(const std::filesystem::path& root);

}  // namespace shakedown
