// What a host and its GPUs do at the moment: the values that `shakedown top` shows and prints as JSON. The last word of
// a name is its unit; 1 GB is 1e9 bytes. A value that the driver or the kernel does not report is nullopt. A rate is
// the growth of a counter since the previous reading, and nullopt in the first one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/gpu_health.hpp"

namespace shakedown {

/// Bytes per second that leave (tx) and reach (rx) a GPU or a port, in GB/s.
struct TrafficRate {
  std::optional<double> tx_gb_per_s, rx_gb_per_s;
};
template <class Archive>
void members(Archive& archive, TrafficRate& rate) {
  archive("tx_gb_per_s", rate.tx_gb_per_s)("rx_gb_per_s", rate.rx_gb_per_s);
}

/// A process with a compute context on a GPU.
struct ProcessActivity {
  int pid = 0;
  std::optional<std::string> name, user;  // nullopt if the process belongs to another container
  std::optional<double> memory_gb;        // memory of the GPU
  /// Variables of its environment that change how NCCL and threads work. Empty also if this user may not read them.
  std::map<std::string, std::string> settings;
};
template <class Archive>
void members(Archive& archive, ProcessActivity& process) {
  archive("pid", process.pid)("name", process.name)("user", process.user)("memory_gb", process.memory_gb);
  archive("settings", process.settings);
}

struct GpuActivity {
  int gpu = 0;  // its number in NVML
  std::optional<std::string> name, uuid;
  std::optional<double> busy_percent;         // time in which a kernel ran
  std::optional<double> memory_busy_percent;  // time in which the memory was read or written
  std::optional<double> sm_mhz, sm_mhz_max, memory_mhz;
  /// Why the clock is below its maximum: names of Throttle (base/gpu_health.hpp). nullopt: unknown.
  std::optional<std::vector<std::string>> clock_limits;
  std::optional<double> power_w, power_limit_w, temperature_c, memory_temperature_c, memory_gb, memory_used_gb;
  TrafficRate nvlink, pcie;
  ErrorCounts errors;      // since the driver was loaded, without XIDs; only counters that are not 0
  ErrorCounts new_errors;  // since the first reading, with XIDs
  std::vector<ProcessActivity> processes;
  std::optional<std::string> problem;  // why the driver reports nothing about this GPU
};
template <class Archive>
void members(Archive& archive, GpuActivity& gpu) {
  archive("gpu", gpu.gpu)("name", gpu.name)("uuid", gpu.uuid)("busy_percent", gpu.busy_percent);
  archive("memory_busy_percent", gpu.memory_busy_percent)("sm_mhz", gpu.sm_mhz)("sm_mhz_max", gpu.sm_mhz_max);
  archive("memory_mhz", gpu.memory_mhz)("clock_limits", gpu.clock_limits)("power_w", gpu.power_w);
  archive("power_limit_w", gpu.power_limit_w)("temperature_c", gpu.temperature_c);
  archive("memory_temperature_c", gpu.memory_temperature_c)("memory_gb", gpu.memory_gb);
  archive("memory_used_gb", gpu.memory_used_gb)("nvlink", gpu.nvlink)("pcie", gpu.pcie)("errors", gpu.errors);
  archive("new_errors", gpu.new_errors)("processes", gpu.processes)("problem", gpu.problem);
}

/// A port of an RDMA NIC ("mlx5_0/1") or a network interface with hardware ("eth0").
struct PortActivity {
  std::string port;
  std::optional<std::string> link_layer;  // "InfiniBand", "Ethernet"
  std::optional<std::string> state;       // "ACTIVE" or "DOWN" for a port, "up" or "down" for an interface
  std::optional<double> rate_gbit;
  TrafficRate traffic;
  ErrorCounts new_errors;  // since the first reading
};
template <class Archive>
void members(Archive& archive, PortActivity& port) {
  archive("port", port.port)("link_layer", port.link_layer)("state", port.state)("rate_gbit", port.rate_gbit);
  archive("traffic", port.traffic)("new_errors", port.new_errors);
}

/// State of the NCCL jobs on a host by NCCL's RAS service: lines as NCCL prints them.
struct RasState {
  std::string version;                                  // "NCCL version 2.27.5 compiled with CUDA 12.9"
  std::vector<std::string> groups;                      // a line for each group of communicators
  std::vector<std::string> errors = {}, warnings = {};  // first lines of these sections
  std::optional<std::string> problem = {};              // why there is no state: "RAS did not answer"
};
template <class Archive>
void members(Archive& archive, RasState& ras) {
  archive("version", ras.version)("groups", ras.groups)("errors", ras.errors)("warnings", ras.warnings);
  archive("problem", ras.problem);
}

struct HostActivity {
  std::string host;
  std::optional<std::string> problem;  // why the host gives no values: "no answer (ssh: ...)"
  std::optional<double> time_s;        // time of the reading, since 1970
  std::optional<double> cpus, cpu_percent, load_1min, memory_gb, memory_used_gb;
  std::optional<std::string> gpu_problem;  // why there are no GPUs: NVML is missing, or the driver fails
  std::vector<GpuActivity> gpus;           // by number
  std::vector<PortActivity> ports;
  std::optional<RasState> ras;  // nullopt if no job answers
};
template <class Archive>
void members(Archive& archive, HostActivity& host) {
  archive("host", host.host)("problem", host.problem)("time_s", host.time_s)("cpus", host.cpus);
  archive("cpu_percent", host.cpu_percent)("load_1min", host.load_1min)("memory_gb", host.memory_gb);
  archive("memory_used_gb", host.memory_used_gb)("gpu_problem", host.gpu_problem)("gpus", host.gpus);
  archive("ports", host.ports)("ras", host.ras);
}

/// The document of `top --json`: all hosts at one moment.
struct Activity {
  std::vector<HostActivity> hosts;
};
template <class Archive>
void members(Archive& archive, Activity& activity) {
  archive("hosts", activity.hosts);
}

}  // namespace shakedown
