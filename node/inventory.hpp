// Identifies the machine before any measurement: NVIDIA GPUs on the PCI bus, the GPU mask of a user or a scheduler, and
// the settings of this process. Reading these facts needs no root privileges, no CUDA and no MPI.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.hpp"

namespace shakedown {

/// The GPUs that a user or a scheduler lets this process use.
struct GpuMask {
  std::string text;                  // "CUDA_VISIBLE_DEVICES=0,1"
  std::vector<std::string> devices;  // the devices in the mask
};

/// PCI addresses ("0000:1b:00.0") by kind, each list sorted.
struct PciBus {
  std::vector<std::string> gpus;        // vendor 10de, class 0x0300 (display) or 0x0302 (3D)
  std::vector<std::string> nvswitches;  // vendor 10de, class 0x0680 (bridge)
  std::vector<std::string> bridges;     // of any vendor, class 0x0604: root ports and the ports of PCIe switches
};

/// Lists the PCI bus under `sysfs`. Empty if the machine has no PCI bus; nullopt if `sysfs` cannot be read.
std::optional<PciBus> read_pci_bus(const std::filesystem::path& sysfs = "/sys");

/// Returns a file that proves that NVIDIA's kernel driver is loaded, with or without GPUs: "/sys/module/nvidia",
/// "/dev/nvidia0". nullopt if there is neither a module nor a device node. Reads below `root`.
std::optional<std::string> nvidia_driver(const std::filesystem::path& root = "/");

/// Returns the number of GPUs that Slurm assigned to this job on this host: SLURM_GPUS_ON_NODE, else the number of
/// entries in SLURM_STEP_GPUS or SLURM_JOB_GPUS.
std::optional<int> scheduled_gpus(const Environment&);

/// Returns CUDA_VISIBLE_DEVICES if it is set, else the GPUs of a Slurm step or job; nullopt if there is no mask.
std::optional<GpuMask> gpu_mask(const Environment&);

/// Returns the variables and settings that affect results, by name. Only names on a list are returned, never the whole
/// environment. A line of NCCL's configuration files has a name such as "/etc/nccl.conf: NCCL_X"; the system's file is
/// below `root`.
std::map<std::string, std::string> tuning(const Environment&, const std::filesystem::path& root = "/");

/// Returns the variables that affect results, by name, among those of a process, such as "NCCL_X=1".
std::map<std::string, std::string> tuning_in(const std::vector<std::string>& variables);

/// Returns the variables as NCCL sees them: from the environment, else from the user's configuration file, else from
/// the system's configuration file. Reads the files once.
Environment nccl_environment(const Environment&, const std::filesystem::path& root = "/");

}  // namespace shakedown
