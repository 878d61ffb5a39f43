// Everything about one host in one reading: what `inventory` prints and pre-flight judges.
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
  std::vector<Facts> gpus;                // of NVML, with their processes and NVLinks
  std::vector<std::vector<Facts>> links;  // of each GPU
  std::vector<Facts> ports;               // InfiniBand and RoCE
  Topology topology;
};
template <class Archive>
void members(Archive& archive, HostInventory& host) {
  archive("host", host.host)("gpus", host.gpus)("links", host.links)("ports", host.ports)("topology", host.topology);
}

/// The root folder of all facts: SHAKEDOWN_ROOT (tests put a made-up machine there; results say so), else "/".
std::filesystem::path fact_root(const Environment&);

/// Reads this host; `folder` is the one whose disk is of interest.
HostInventory read_host(const std::filesystem::path& root, const Nvml&, const Environment&,
                        const std::filesystem::path& folder);

/// "NCCL_ALGO=Ring, /etc/nccl.conf: NCCL_IB_HCA=mlx5", or "none".
std::string nccl_settings(const Environment&, const std::filesystem::path& root);

/// "9.14.0" of the library that the loader finds; nothing if there is none.
std::optional<std::string> cudnn_version();

/// "job 4711, step 0, node gpu1", or "none".
std::string slurm_job(const Environment&);

}  // namespace shakedown
