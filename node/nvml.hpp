// What the NVIDIA driver says about a GPU: clocks, power, errors, links, processes. Through NVML, which is loaded while
// the program runs; where it or one of its functions is missing, the answers are "unknown, because ...".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "node/inventory.hpp"

namespace shakedown {

/// A value, or nothing and the reason.
template <class T>
class Answer : public std::optional<T> {
 public:
  Answer(T value) : std::optional<T>(std::move(value)) {}
  static Answer unknown(std::string why) { return Answer(std::nullopt, std::move(why)); }

  /// "not supported", "no permission", "nvmlDeviceGetX is missing from the library", ...; empty if there is a value.
  const std::string& why() const { return why_; }

 private:
  Answer(std::nullopt_t, std::string why) : why_(std::move(why)) {}
  std::string why_;
};

/// Why a GPU runs below its highest clock; a set of bits, by NVML's numbers.
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
/// Those that power or heat impose.
inline constexpr std::uint64_t power_or_thermal = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

enum class EccErrors { corrected, uncorrected };
enum class EccSince { reset, manufacture };  // NVML's volatile (since the driver was loaded) and aggregate counters

struct RemappedRows {
  unsigned corrected, uncorrected;  // rows remapped because of such errors
  bool pending, failed;             // pending: takes effect at the next reset
};
struct RetiredPages {  // GPUs before Ampere
  unsigned single_bit, double_bit;
  std::optional<bool> pending;
};
struct LinkErrors {  // of one NVLink, since the driver was loaded
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
  int status;      // of the registration; 0 = success
  unsigned clique;
  std::string cluster;  // UUID
  unsigned health_mask;
};
struct Modes {
  bool now, pending;
};
struct GpuMemory {
  std::uint64_t total, used;  // bytes; used has what the driver keeps for itself
};
struct GpuProcess {
  unsigned pid;
  std::optional<std::string> name;  // from /proc; nothing where it is another user's or another container's
  std::optional<std::uint64_t> memory_bytes;
};

/// The library that SHAKEDOWN_NVML names (tests put a made-up one there; results say so), else libnvidia-ml.so.1.
std::string nvml_library(const Environment&);

class NvmlLibrary;

/// One GPU. Every getter asks the driver; none throws, each may be called from any thread.
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
  Answer<double> power_w() const;        // now; where the driver does not tell, its mean over a second
  Answer<double> mean_power_w() const;   // over a second, or of the moment on older GPUs
  Answer<double> power_limit_w() const;  // the one in force
  Answer<unsigned> temperature_c() const;
  Answer<unsigned> memory_temperature_c() const;
  Answer<std::uint64_t> clock_reasons() const;  // bits of ClockReason

  Answer<Modes> ecc() const;
  Answer<std::uint64_t> ecc_errors(EccErrors, EccSince) const;
  Answer<RemappedRows> remapped_rows() const;
  Answer<RetiredPages> retired_pages() const;

  Answer<unsigned> pcie_generation() const;
  Answer<unsigned> pcie_generation_max() const;  // of GPU and slot together
  Answer<unsigned> pcie_width() const;
  Answer<unsigned> pcie_width_max() const;
  Answer<unsigned> pcie_replays() const;

  unsigned link_count() const;  // 0 where NVML does not tell
  /// Every link that the GPU has; empty where it has none.
  Answer<std::vector<Link>> links() const;
  /// Of the first so many links: for who asks again and again, and need not ask for their states and speeds.
  std::vector<LinkErrors> link_errors(unsigned links) const;
  Answer<Fabric> fabric() const;

  Answer<Modes> mig() const;
  Answer<bool> persistence() const;
  Answer<unsigned> compute_mode() const;  // 0 default, 2 prohibited, 3 exclusive process
  Answer<GpuMemory> memory() const;
  /// Processes with a compute context, ours among them. NVML leaves out those that this container cannot see.
  Answer<std::vector<GpuProcess>> processes() const;

 private:
  Answer<std::vector<Answer<bool>>> link_states() const;  // of every link, whether it is active
  std::vector<Answer<std::uint64_t>> fields_of_links(unsigned links, std::span<const unsigned> fields) const;

  friend class Nvml;
  friend class XidWatch;
  NvmlGpu(std::shared_ptr<const NvmlLibrary> library, void* device) : library_(std::move(library)), device_(device) {}

  std::shared_ptr<const NvmlLibrary> library_;
  void* device_;
};

/// The library, initialised. One that could not be loaded is a valid object that knows no GPU.
class Nvml {
 public:
  explicit Nvml(const std::string& library = nvml_library(process_environment()));

  /// Why there is no NVML; empty if there is.
  const std::string& problem() const { return problem_; }

  Answer<std::string> driver_version() const;
  /// GPUs that this process may see; CUDA_VISIBLE_DEVICES hides and permutes none of them.
  Answer<unsigned> device_count() const;
  std::vector<NvmlGpu> gpus() const;

  /// The GPU with that UUID ("GPU-...") or, where NVML does not know it, at that PCI address ("0000:1b:00.0").
  Answer<NvmlGpu> find(const std::optional<std::string>& uuid, const std::optional<std::string>& pci) const;

 private:
  std::shared_ptr<const NvmlLibrary> library_;  // null: there is a problem
  std::string problem_;
};

/// Collects the XIDs (the driver's error reports) of one GPU from its construction on.
class XidWatch {
 public:
  explicit XidWatch(const NvmlGpu&);
  XidWatch(const XidWatch&) = delete;
  XidWatch& operator=(const XidWatch&) = delete;
  ~XidWatch();

  /// The numbers of those that came since the last call. Does not wait.
  Answer<std::vector<unsigned>> take();

 private:
  std::shared_ptr<const NvmlLibrary> library_;
  void* events_ = nullptr;
  std::string problem_;
};

}  // namespace shakedown
