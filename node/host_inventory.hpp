// All facts about one host, read at once: `inventory` prints them and pre-flight judges them.
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
  Facts host;                             // processors, memory, limits, disks, system, networks, numbers of GPUs
  std::vector<Facts> gpus;                // from NVML, with their processes and NVLinks
  std::vector<std::vector<Facts>> links;  // per GPU
  std::vector<Facts> ports;               // InfiniBand and RoCE
  std::vector<std::string> rails = {};    // names of the ports that are rails
  std::vector<Facts> settings;            // that cost something (node/audit.hpp)
  Topology topology;
};
template <class Archive>
void members(Archive& archive, HostInventory& host) {
  archive("host", host.host)("gpus", host.gpus)("links", host.links)("ports", host.ports)("rails", host.rails);
  archive("settings", host.settings)("topology", host.topology);
}

/// Returns the root folder of all facts: SHAKEDOWN_ROOT (used by tests with a simulated machine; results record it),
/// else "/".
std::filesystem::path fact_root(const Environment&);

/// Reads this host. `folder` selects the disk to report. `rails`: those that a site file names, empty for none.
HostInventory read_host(const std::filesystem::path& root, const Nvml&, const Environment&,
                        const std::filesystem::path& folder, const std::vector<std::string>& rails = {});

/// Returns "NCCL_ALGO=Ring, /etc/nccl.conf: NCCL_IB_HCA=mlx5", or "none".
std::string nccl_settings(const Environment&, const std::filesystem::path& root);

/// Returns the version of the library that the loader finds, such as "9.14.0"; nullopt if there is none.
std::optional<std::string> cudnn_version();

/// Returns "job 4711, step 0, node gpu1", or "none".
std::string slurm_job(const Environment&);

}  // namespace shakedown
