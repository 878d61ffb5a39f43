// Reads all facts about one host. The program `inventory` prints them, and pre-flight judges them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "node/fact.hpp"
#include "node/inventory.hpp"
#include "node/nvml.hpp"
#include "node/topology.hpp"

namespace shakedown {

struct HostInventory {
  Facts host;                             // processors, memory, limits, disks, system, networks, and the number of GPUs
  std::vector<Facts> gpus;                // facts of each GPU from NVML, with its processes and NVLinks
  std::vector<std::vector<Facts>> links;  // by GPU: facts of each of its links
  std::vector<Facts> ports;               // facts of each InfiniBand and RoCE port
  std::vector<std::string> rails = {};    // names of the ports that are rails
  std::vector<Facts> settings;            // settings that cost speed or hide faults (node/audit.hpp)
  Topology topology;
};
template <class Archive>
void members(Archive& archive, HostInventory& host) {
  archive("host", host.host)("gpus", host.gpus)("links", host.links)("ports", host.ports)("rails", host.rails);
  archive("settings", host.settings)("topology", host.topology);
}

/// Returns the root folder of all facts: SHAKEDOWN_ROOT if it is set, else "/". Tests set it to a simulated machine,
/// and results record it.
std::filesystem::path fact_root(const Environment&);

/// Reads the facts of this host. `folder` is on the disk to report. `rails` are the rails that a site file names; empty
/// without a site file. `waiting`: processes that do not count as users of a GPU.
HostInventory read_host(const std::filesystem::path& root, const Nvml&, const Environment&,
                        const std::filesystem::path& folder, const std::vector<std::string>& rails = {},
                        const std::vector<int>& waiting = {});

/// Returns the settings of NCCL, such as "NCCL_ALGO=Ring, /etc/nccl.conf: NCCL_IB_HCA=mlx5"; "none" if there are none.
std::string nccl_settings(const Environment&, const std::filesystem::path& root);

/// Returns the version of the library that the loader finds, such as "9.14.0"; nullopt if there is none.
std::optional<std::string> cudnn_version();

/// Returns "job 4711, step 0, node gpu1"; "none" outside of Slurm.
std::string slurm_job(const Environment&);

}  // namespace shakedown
