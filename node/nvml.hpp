// The state of a GPU as the NVIDIA driver reports it: clocks, power, errors, links, processes. NVML is loaded at run
// time. If the library or one of its functions is missing, the values are unknown and have a reason.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "node/answer.hpp"
#include "node/inventory.hpp"

namespace shakedown {

/// Reasons why a GPU runs below its highest clock. A value is a set of bits, which are those of NVML.
enum class ClockReason : std::uint64_t {
  idle = 0x1,
  applications_setting = 0x2,
  sw_power_cap = 0x4,
  hw_slowdown = 0x8,
  sync_boost = 0x10,
  sw_thermal = 0x20,
  hw_thermal = 0x40,
  hw_power_brake = 0x80,
  display_setting = 0x100
};
/// The reasons that are limits of power or heat.
inline constexpr std::uint64_t power_or_thermal = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

enum class EccErrors { corrected, uncorrected };
/// NVML's "volatile" counters, which start when the driver is loaded, and "aggregate" counters.
enum class EccSince { reset, manufacture };

struct RemappedRows {
  unsigned corrected, uncorrected;  // rows remapped because of corrected and of uncorrected errors
  bool pending, failed;             // pending: the remapping takes effect at the next reset
};
struct RetiredPages {  // retired pages exist only on GPUs before Ampere
  unsigned single_bit, double_bit;
  std::optional<bool> pending;
};
struct LinkErrors {  // errors of one NVLink since the driver was loaded
  Answer<std::uint64_t> replays, recoveries, crc;
};
struct Link {  // one NVLink
  unsigned number;
  Answer<bool> active;
  Answer<unsigned> speed_mbps;  // megabytes per second and direction
  LinkErrors errors;
};
struct Fabric {
  unsigned state;  // 0 not supported, 1 not started, 2 in progress, 3 completed
  int status;      // status of the registration; 0: success
  unsigned clique;
  std::string cluster;  // UUID
  unsigned health_mask;
};
struct Modes {
  bool now, pending;
};
struct GpuMemory {
  std::uint64_t total, used;  // bytes; `used` includes the driver's own reservation
};
struct Utilization {  // percent of the driver's last sampling period, which is 0.17 to 1 s
  unsigned gpu;       // time in which a kernel ran
  unsigned memory;    // time in which the memory was read or written
};
struct Traffic {  // bytes since the driver was loaded
  std::uint64_t sent, received;
};
struct GpuProcess {
  unsigned pid;
  std::optional<std::string> name;  // from /proc; nullopt for processes of other users or containers
  std::optional<std::uint64_t> memory_bytes;

  bool is_one_of(const std::vector<int>& pids) const {
    return std::ranges::find(pids, static_cast<int>(pid)) != pids.end();
  }
};

/// Returns the name of the library: SHAKEDOWN_NVML if it is set, else libnvidia-ml.so.1. Tests set it to a simulated
/// library, and results record it.
std::string nvml_library(const Environment&);

class NvmlLibrary;

/// One GPU. Every getter queries the driver. No getter throws, and any thread may call it.
class NvmlGpu {
 public:
  Answer<std::string> name() const;
  Answer<std::string> uuid() const;  // GPU-xxxxxxxx-...
  Answer<std::string> pci() const;   // 0000:1b:00.0
  Answer<std::string> serial() const;
  Answer<std::string> vbios() const;

  Answer<unsigned> sm_mhz() const;
  Answer<unsigned> sm_mhz_max() const;
  Answer<unsigned> memory_mhz() const;
  Answer<unsigned> memory_mhz_max() const;
  Answer<double> power_w() const;        // current power; if the driver does not report it, the mean over a second
  Answer<double> mean_power_w() const;   // mean over a second; on older GPUs the current power
  Answer<double> energy_j() const;       // energy since the driver was loaded; from Volta on
  Answer<double> power_limit_w() const;  // the limit that is enforced now
  Answer<unsigned> temperature_c() const;
  Answer<unsigned> memory_temperature_c() const;
  /// Returns the action that the driver recommends (nvmlDeviceGpuRecoveryAction_t). 0 is none, 1 is a reset.
  Answer<unsigned> recovery_action() const;
  Answer<std::uint64_t> clock_reasons() const;  // a set of bits of ClockReason

  Answer<Modes> ecc() const;
  Answer<std::uint64_t> ecc_errors(EccErrors, EccSince) const;
  Answer<RemappedRows> remapped_rows() const;
  Answer<RetiredPages> retired_pages() const;

  Answer<unsigned> pcie_generation() const;
  Answer<unsigned> pcie_generation_max() const;  // the highest generation that both GPU and slot support
  Answer<unsigned> pcie_width() const;
  Answer<unsigned> pcie_width_max() const;
  Answer<unsigned> pcie_replays() const;

  unsigned link_count() const;  // 0 if NVML does not report the number
  /// Returns every link of the GPU; empty if it has none.
  Answer<std::vector<Link>> links() const;
  /// Returns the errors of the first `links` links. Does not query states and speeds, so it can be called frequently.
  std::vector<LinkErrors> link_errors(unsigned links) const;
  Answer<Fabric> fabric() const;
  /// Returns the payload of all NVLinks.
  Answer<Traffic> nvlink_traffic() const;
  /// Returns the traffic of PCIe with its overhead. Unknown if the driver's counters have only 32 bits, because these
  /// can overflow several times in a second.
  Answer<Traffic> pcie_traffic() const;

  Answer<Modes> mig() const;
  Answer<bool> persistence() const;
  Answer<unsigned> compute_mode() const;  // 0 default, 2 prohibited, 3 exclusive process
  Answer<bool> vgpu() const;              // true for a part of a GPU that a hypervisor has divided
  Answer<bool> confidential() const;      // true for confidential computing, in which copies to the host are encrypted
  Answer<GpuMemory> memory() const;
  Answer<Utilization> utilization() const;
  /// Returns the processes with a compute context, including this one. NVML omits processes that this container cannot
  /// see.
  Answer<std::vector<GpuProcess>> processes() const;

 private:
  Answer<std::vector<Answer<bool>>> link_states() const;  // for each link: true if it is active
  std::vector<Answer<std::uint64_t>> fields_of_links(unsigned links, std::span<const unsigned> fields) const;

  friend class Nvml;
  friend class XidWatch;
  NvmlGpu(std::shared_ptr<const NvmlLibrary> library, void* device) : library_(std::move(library)), device_(device) {}

  std::shared_ptr<const NvmlLibrary> library_;
  void* device_;
};

/// The initialized library. If it could not be loaded, the object is valid but has no GPUs.
class Nvml {
 public:
  explicit Nvml(const std::string& library = nvml_library(process_environment()));

  /// Returns the reason why NVML cannot be used; empty if it can.
  const std::string& problem() const { return problem_; }

  Answer<std::string> driver_version() const;
  /// Returns the number of GPUs that this process may see; CUDA_VISIBLE_DEVICES neither hides nor reorders them.
  Answer<unsigned> device_count() const;
  std::vector<NvmlGpu> gpus() const;

  /// Returns the GPU with this UUID ("GPU-..."). If NVML does not know the UUID, returns the GPU at this PCI address
  /// ("0000:1b:00.0").
  Answer<NvmlGpu> find(const std::optional<std::string>& uuid, const std::optional<std::string>& pci) const;

 private:
  std::shared_ptr<const NvmlLibrary> library_;  // null if there is a problem
  std::string problem_;
};

/// Collects the XIDs (error reports of the driver) of one GPU. The collection begins when the object is constructed.
class XidWatch {
 public:
  explicit XidWatch(const NvmlGpu&);
  XidWatch(const XidWatch&) = delete;
  XidWatch& operator=(const XidWatch&) = delete;
  ~XidWatch();

  /// Returns the XIDs that were reported after the last call. Does not wait.
  Answer<std::vector<unsigned>> take();

 private:
  std::shared_ptr<const NvmlLibrary> library_;
  void* events_ = nullptr;
  std::string problem_;
};

}  // namespace shakedown
