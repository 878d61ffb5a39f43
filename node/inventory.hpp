// Identifies the machine before any measurement: NVIDIA GPUs on the PCI bus, the GPU mask set by a user or a scheduler,
// the settings of this process. Needs no root privileges, CUDA or MPI.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// Returns the value of an environment variable, or nullopt.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

/// The GPUs that a user or a scheduler allows this process to use.
struct GpuMask {
  std::string text;                  // "CUDA_VISIBLE_DEVICES=0,1"
  std::vector<std::string> devices;  // the devices in the mask
};

/// PCI addresses ("0000:1b:00.0") by kind, each list sorted.
struct PciBus {
  std::vector<std::string> gpus;        // vendor 10de, class 0x0300 (display) or 0x0302 (3D)
  std::vector<std::string> nvswitches;  // vendor 10de, class 0x0680 (bridge)
  std::vector<std::string> bridges;     // of any vendor, class 0x0604: ports of PCIe switches and root ports
};

/// Lists the PCI bus under `sysfs`. Empty on a machine without one; nullopt if `sysfs` cannot be read.
std::optional<PciBus> read_pci_bus(const std::filesystem::path& sysfs = "/sys");

/// Returns evidence of NVIDIA's kernel driver, with or without GPUs: "/sys/module/nvidia", "/dev/nvidia0". Returns
/// nullopt if there is neither a module nor a device node. Read below `root`.
std::optional<std::string> nvidia_driver(const std::filesystem::path& root = "/");

/// Returns the number of GPUs that Slurm assigned to this job on this host: SLURM_GPUS_ON_NODE, else the number of
/// entries in SLURM_STEP_GPUS or SLURM_JOB_GPUS.
std::optional<int> scheduled_gpus(const Environment&);

/// Returns CUDA_VISIBLE_DEVICES if it is set, else the GPUs of a Slurm step or job; nullopt if there is no mask.
std::optional<GpuMask> gpu_mask(const Environment&);

/// Returns tuning variables and settings that change results, by name: an allow-list, never the whole environment.
/// Lines of NCCL's configuration files have names such as "/etc/nccl.conf: NCCL_X"; the system's file is below `root`.
std::map<std::string, std::string> tuning(const Environment&, const std::filesystem::path& root = "/");

/// Returns the variables as NCCL sees them: from the environment, else from the user's configuration file, else from
/// the system's. Reads the files once.
Environment nccl_environment(const Environment&, const std::filesystem::path& root = "/");

}  // namespace shakedown
