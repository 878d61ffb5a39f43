#include "node/activity.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/files.hpp"
#include "base/host_list.hpp"
#include "base/text.hpp"
#include "node/host_facts.hpp"
#include "node/inventory.hpp"
#include "node/telemetry.hpp"

namespace shakedown {
namespace {

using Path = std::filesystem::path;
using Clock = std::chrono::steady_clock;

constexpr unsigned slow_readings = 10;  // slow values are read once in this number of readings
constexpr std::chrono::seconds ras_limit(4);

template <class T>
std::optional<double> number(const Answer<T>& answer) {
  return answer ? std::optional(static_cast<double>(*answer)) : std::nullopt;
}

std::optional<std::string> text(const Answer<std::string>& answer) {
  return answer ? std::optional(one_line(*answer)) : std::nullopt;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the growth of a counter in GB/s; nullopt if the counter was reset or has overflowed.
std::optional<double> rate(double before, double after, double seconds) {
  if (seconds <= 0 || after < before) return std::nullopt;
  return (after - before) / seconds / 1e9;
}

TrafficRate rate(const std::optional<Traffic>& before, const std::optional<Traffic>& after, double seconds) {
  if (!before || !after) return {};
  return {rate(static_cast<double>(before->sent), static_cast<double>(after->sent), seconds),
          rate(static_cast<double>(before->received), static_cast<double>(after->received), seconds)};
}

template <class T>
std::optional<T> value(const Answer<T>& answer) {
  return answer ? std::optional<T>(*answer) : std::nullopt;
}

/// Returns the name of a user in /etc/passwd, else the number.
std::string user_name(const Path& root, unsigned user) {
  const auto number = std::to_string(user);
  for (const auto& line : lines_of(root / "etc/passwd").value_or(std::vector<std::string>{})) {
    const auto fields = split(line, ':');  // name:password:number:...
    if (fields.size() > 2 && fields[2] == number) return one_line(fields[0]);
  }
  return number;
}

/// Returns the number of processors in a list such as "0-95,192".
std::optional<double> online_processors(const Path& root) {
  const auto list = line_of(root / "sys/devices/system/cpu/online");
  if (!list) return std::nullopt;
  return static_cast<double>(expand_hosts("cpu[" + *list + "]").size());
}

/// Returns the interfaces with hardware: not those of bridges, containers and the loopback.
std::vector<std::string> hardware_interfaces(const Path& root) {
  auto names = names_in(root / "sys/class/net").value_or(std::vector<std::string>{});
  std::erase_if(names, [&](const auto& name) { return !is_visible(root / "sys/class/net" / name / "device"); });
  return names;
}

PortActivity interface_activity(const Path& root, const std::string& name) {
  const auto folder = root / "sys/class/net" / name;
  PortActivity port;
  port.port = one_line(name);
  port.link_layer = "Ethernet";
  constexpr double arphrd_infiniband = 32;  // linux/if_arp.h
  if (number_of(folder / "type") == arphrd_infiniband) port.link_layer = "InfiniBand";
  port.state = line_of(folder / "operstate");
  const auto mbit = number_of(folder / "speed");  // -1 if the link is down
  if (mbit && *mbit > 0) port.rate_gbit = *mbit / 1e3;
  return port;
}

}  // namespace

ProcessActivity process_activity(const Path& root, const GpuProcess& process) {
  ProcessActivity activity;
  activity.pid = static_cast<int>(process.pid);
  if (process.name) activity.name = one_line(*process.name);
  if (process.memory_bytes) activity.memory_gb = static_cast<double>(*process.memory_bytes) / 1e9;
  const auto folder = root / "proc" / std::to_string(process.pid);
  struct stat state {};
  if (stat(folder.c_str(), &state) == 0) activity.user = user_name(root, state.st_uid);
  for (const auto& [name, value] : tuning_in(split(content_of(folder / "environ").value_or(""), '\0'))) {
    activity.settings[name] = one_line(value);
  }
  return activity;
}

ActivityReader::ActivityReader(Path root, std::string host, const Nvml& nvml, int ras_port)
    : root_(std::move(root)), host_(std::move(host)), ras_port_(ras_port) {
  if (!nvml.problem().empty()) gpu_problem_ = one_line(nvml.problem());
  for (const auto& gpu : nvml.gpus()) {
    const auto links = gpu.link_count();
    gpus_.push_back({gpu, links, std::make_unique<XidWatch>(gpu)});
    auto& known = gpus_.back().slow;
    known.gpu = static_cast<int>(gpus_.size()) - 1;
    known.name = text(gpu.name());
    known.uuid = text(gpu.uuid());
    known.sm_mhz_max = number(gpu.sm_mhz_max());
  }
  if (!gpu_problem_ && gpus_.empty()) gpu_problem_ = "the driver reports no GPU";
  find_ports();
}

void ActivityReader::find_ports() {
  const auto rdma = read_ports(root_, read_pci_bus(root_ / "sys").value_or(PciBus{}).gpus);
  for (const auto& port : rdma.value_or(std::vector<shakedown::Port>{})) {
    ports_.push_back({{port.name(), port.link_layer, port.state, port.rate_gbit, {}, {}}});
  }
  for (const auto& name : hardware_interfaces(root_)) ports_.push_back({interface_activity(root_, name)});
}

void ActivityReader::read_errors(Gpu& gpu) {
  const auto counts = error_counts(gpu.nvml, gpu.links);
  if (readings_ == 0) gpu.first_errors = counts;
  gpu.slow.new_errors = grown(gpu.first_errors, counts);
  gpu.slow.errors = counts;
  std::erase_if(gpu.slow.errors, [](const auto& count) { return count.second == 0; });
}

void ActivityReader::read_slow_values() {
  known_processes_.clear();
  memory_gb_ = memory_facts(root_)["memory_gb"].number;
  cpus_ = online_processors(root_);
  for (auto& gpu : gpus_) {
    read_errors(gpu);
    gpu.slow.power_limit_w = number(gpu.nvml.power_limit_w());
  }
  std::vector<std::string> rdma;
  for (auto& port : ports_) {
    const auto slash = port.slow.port.find('/');
    if (slash == std::string::npos) {
      port.slow = interface_activity(root_, port.slow.port);
      continue;
    }
    rdma.push_back(port.slow.port);
    const auto folder = root_ / "sys/class/infiniband" / rdma.back().substr(0, slash) / "ports";
    const auto state = line_of(folder / rdma.back().substr(slash + 1) / "state").value_or("");  // "4: ACTIVE"
    if (const auto word = state.rfind(' '); word != std::string::npos) port.slow.state = state.substr(word + 1);
  }
  const auto errors = port_errors(root_, rdma);
  if (readings_ == 0) first_port_errors_ = errors;
  const auto more = grown(first_port_errors_, errors);
  for (auto& port : ports_) {
    if (const auto found = more.find(port.slow.port); found != more.end()) port.slow.new_errors = found->second;
  }
}

/// Reads the time in which processors were not idle from /proc/uptime. /proc/stat would take a millisecond on a host
/// with many interrupts.
void ActivityReader::read_processor(HostActivity& host) {
  std::istringstream uptime(line_of(root_ / "proc/uptime").value_or(""));
  CpuTime now;
  if (uptime >> now.up_s >> now.idle_s) {  // the idle time is the sum over all processors
    if (cpu_ && cpus_ && now.up_s > cpu_->up_s) {
      const auto idle = (now.idle_s - cpu_->idle_s) / (now.up_s - cpu_->up_s) / *cpus_;
      host.cpu_percent = 100 * std::clamp(1 - idle, 0.0, 1.0);
    }
    cpu_ = now;
  }
  host.cpus = cpus_;
  host.load_1min = number_of(root_ / "proc/loadavg");
  host.memory_gb = memory_gb_;
  const auto free = free_memory_gb(root_);
  if (memory_gb_ && free) host.memory_used_gb = *memory_gb_ - *free;
}

void ActivityReader::read_traffic(Gpu& gpu, GpuActivity& activity) {
  const Counters now{value(gpu.nvml.nvlink_traffic()), value(gpu.nvml.pcie_traffic()), Clock::now()};
  const auto seconds = std::chrono::duration<double>(now.at - gpu.last.at).count();
  if (readings_ > 0) {
    activity.nvlink = rate(gpu.last.nvlink, now.nvlink, seconds);
    activity.pcie = rate(gpu.last.pcie, now.pcie, seconds);
  }
  gpu.last = now;
}

void ActivityReader::read_processes(const Gpu& gpu, GpuActivity& activity) {
  const auto processes = gpu.nvml.processes();
  if (!processes) return;
  for (const auto& process : *processes) {
    // Its environment does not change. A new process with the same number has another name, or is found within ten
    // readings.
    auto known = known_processes_.find(process.pid);
    if (known == known_processes_.end()) {
      known = known_processes_.emplace(process.pid, process_activity(root_, process)).first;
    }
    auto shown = known->second;
    shown.memory_gb.reset();
    if (process.memory_bytes) shown.memory_gb = static_cast<double>(*process.memory_bytes) / 1e9;
    activity.processes.push_back(std::move(shown));
  }
}

GpuActivity ActivityReader::read_gpu(Gpu& gpu) {
  auto activity = gpu.slow;
  const auto now = sample(gpu.nvml);
  activity.sm_mhz = now.sm_mhz;
  activity.power_w = now.power_w;
  activity.temperature_c = now.temperature_c;
  if (now.reasons) activity.clock_limits = clock_limits(*now.reasons);
  activity.memory_mhz = number(gpu.nvml.memory_mhz());
  activity.memory_temperature_c = number(gpu.nvml.memory_temperature_c());
  if (const auto busy = gpu.nvml.utilization()) {
    activity.busy_percent = busy->gpu;
    activity.memory_busy_percent = busy->memory;
  }
  const auto memory = gpu.nvml.memory();
  if (memory) {
    activity.memory_gb = static_cast<double>(memory->total) / 1e9;
    activity.memory_used_gb = static_cast<double>(memory->used) / 1e9;
  }
  if (!memory && !now.sm_mhz && !now.temperature_c) activity.problem = one_line(memory.why());
  read_traffic(gpu, activity);
  read_processes(gpu, activity);
  for (const auto xid : gpu.xids->take().value_or(std::vector<unsigned>{})) {
    ++gpu.xid_counts["xid_" + std::to_string(xid)];
  }
  for (const auto& [name, count] : gpu.xid_counts) activity.new_errors[name] = count;
  return activity;
}

PortActivity ActivityReader::read_port(Port& port) {
  auto activity = port.slow;
  const auto now = port_traffic(root_, port.slow.port);
  const auto at = Clock::now();
  const auto seconds = std::chrono::duration<double>(at - port.at).count();
  if (port.last && now) {
    activity.traffic = {rate(port.last->sent, now->sent, seconds), rate(port.last->received, now->received, seconds)};
  }
  port.last = now;
  port.at = at;
  return activity;
}

void ActivityReader::wait_for_ras(std::chrono::milliseconds limit) {
  is_ras_late_ = ras_query_.valid() && ras_query_.wait_for(limit) != std::future_status::ready;
}

/// Takes the answer of the last query, and begins a new one with each reading of slow values while a job may run. The
/// query has a thread, because a job of many processes answers after seconds.
void ActivityReader::read_ras(const std::vector<GpuActivity>& gpus) {
  using namespace std::chrono_literals;
  if (ras_query_.valid() && ras_query_.wait_for(0s) == std::future_status::ready) {
    ras_ = ras_query_.get();
  } else if (is_ras_late_) {
    ras_.emplace().problem = ras_is_silent;
  }
  RasAddress address{.port = ras_port_};
  bool has_processes = false;
  for (const auto& gpu : gpus) {
    for (const auto& process : gpu.processes) {
      has_processes = true;
      if (const auto set = process.settings.find("NCCL_RAS_ADDR"); set != process.settings.end())
        address = ras_address_in(set->second);
    }
  }
  if (!has_processes) ras_.reset();
  if (ras_query_.valid() || !has_processes || readings_ % slow_readings != 0) return;
  ras_query_ = std::async(std::launch::async, [address] { return ras_state(ras_limit, address); });
}

HostActivity ActivityReader::read() {
  if (readings_ % slow_readings == 0) read_slow_values();
  HostActivity host;
  host.host = host_;
  host.time_s = wall_seconds();
  host.gpu_problem = gpu_problem_;
  read_processor(host);
  for (auto& gpu : gpus_) host.gpus.push_back(read_gpu(gpu));
  for (auto& port : ports_) host.ports.push_back(read_port(port));
  read_ras(host.gpus);
  host.ras = ras_;
  ++readings_;
  return host;
}

}  // namespace shakedown
