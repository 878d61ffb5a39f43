// Reads what this host and its GPUs do, again and again, at a small cost: values that change slowly or that are
// expensive are read in every tenth reading only.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/host_activity.hpp"
#include "node/nccl_ras.hpp"
#include "node/nvml.hpp"
#include "node/ports.hpp"

namespace shakedown {

/// Returns what the kernel reports about a process on a GPU: its user, and the variables of its environment that change
/// how NCCL and threads work (NCCL_*, CUDA_DEVICE_MAX_CONNECTIONS, OMP_NUM_THREADS). Reads below `root`, and
/// asks no name service: a user who is not in /etc/passwd is a number.
ProcessActivity process_activity(const std::filesystem::path& root, const GpuProcess&);

/// Reads one host. Rates are those between two readings.
class ActivityReader {
 public:
  /// `host` is the name to report. Calls to the driver may hang, so the object belongs in a child process.
  ActivityReader(std::filesystem::path root, std::string host, const Nvml&, int ras_port = usual_ras_port);

  HostActivity read();
  /// Waits for an answer of RAS that is not there yet, at most this long. The next reading says if there is none.
  void wait_for_ras(std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;

  struct Counters {  // of one reading
    std::optional<Traffic> nvlink, pcie;
    Clock::time_point at;
  };
  struct Gpu {
    NvmlGpu nvml;
    unsigned links;
    std::unique_ptr<XidWatch> xids;
    GpuActivity slow = {};  // values that are not read in every reading
    ErrorCounts first_errors = {}, xid_counts = {};
    Counters last = {};
  };
  struct Port {
    PortActivity slow;
    std::optional<PortTraffic> last = {};
    Clock::time_point at = {};
  };
  struct CpuTime {
    double up_s = 0, idle_s = 0;
  };

  void read_slow_values();
  void read_errors(Gpu&);
  void read_processor(HostActivity&);
  GpuActivity read_gpu(Gpu&);
  void read_processes(const Gpu&, GpuActivity&);
  void read_traffic(Gpu&, GpuActivity&);
  PortActivity read_port(Port&);
  void find_ports();
  void read_ras(const std::vector<GpuActivity>&);

  const std::filesystem::path root_;
  const std::string host_;
  const int ras_port_;
  std::optional<std::string> gpu_problem_;
  std::vector<Gpu> gpus_;
  std::vector<Port> ports_;
  PortErrors first_port_errors_;
  std::optional<CpuTime> cpu_;
  std::optional<double> memory_gb_, cpus_;
  std::map<unsigned, ProcessActivity> known_processes_;  // by PID; forgotten with the slow values
  std::optional<RasState> ras_;
  std::future<std::optional<RasState>> ras_query_;
  bool is_ras_late_ = false;
  unsigned readings_ = 0;
};

}  // namespace shakedown
