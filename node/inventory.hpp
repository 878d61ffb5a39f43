// What machine this is, read before anything is measured: NVIDIA GPUs on the PCI bus, the mask that a user or a
// scheduler put on them, the settings of this process. No root, no CUDA, no MPI.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// Gives the value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

/// The part of the GPUs that this process may use, as a user or a scheduler has said.
struct GpuMask {
  std::string text;                  // "CUDA_VISIBLE_DEVICES=0,1"
  std::vector<std::string> devices;  // what it names
};

/// PCI addresses ("0000:1b:00.0") of the NVIDIA GPUs under `sysfs`: vendor 10de, class 0x0300 (display) or 0x0302 (3D).
/// None on a machine without a PCI bus; nothing where it cannot be known, because `sysfs` cannot be read.
std::optional<std::vector<std::string>> nvidia_gpus(const std::filesystem::path& sysfs = "/sys");

/// What shows that NVIDIA's kernel driver is there, whether there are GPUs or not: "/sys/module/nvidia",
/// "/dev/nvidia0". Nothing where neither module nor device nodes are. Read below `root`.
std::optional<std::string> nvidia_driver(const std::filesystem::path& root = "/");

/// GPUs that Slurm gave this job on this host: SLURM_GPUS_ON_NODE, else the number in SLURM_STEP_GPUS or
/// SLURM_JOB_GPUS.
std::optional<int> scheduled_gpus(const Environment&);

/// CUDA_VISIBLE_DEVICES if it is set, else the GPUs of a Slurm step or job; nothing if there is no mask.
std::optional<GpuMask> gpu_mask(const Environment&);

/// Tuning variables and settings that change results, by name: an allow-list, never the whole environment. Lines of
/// NCCL's configuration files stand as "/etc/nccl.conf: NCCL_X"; the system's lies below `root`.
std::map<std::string, std::string> tuning(const Environment&, const std::filesystem::path& root = "/");

/// A variable as NCCL sees it: from the environment, else from the user's configuration file, else from the system's.
std::optional<std::string> nccl_setting(const Environment&, const std::string& name,
                                        const std::filesystem::path& root = "/");

/// NVIDIA's NVSwitches on the PCI bus (bridges, class 0x0680); nothing where it cannot be known.
std::optional<int> nvswitches(const std::filesystem::path& sysfs = "/sys");

}  // namespace shakedown
