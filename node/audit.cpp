#include "node/audit.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <set>

#include "base/files.hpp"
#include "base/known_events.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"

namespace shakedown {
namespace {

using Path = std::filesystem::path;
using Found = std::optional<std::string>;

/// Reads one setting of a host. Returns its value if the value costs speed or hides faults; nullopt if it does not, or
/// if it cannot be read.
using Read = std::function<Found(const AuditedHost&)>;

struct Audit {
  std::string_view name;
  Read read;
  std::string_view cost, command, source;
};

/// Returns the text of a fact that was read before the audit.
Found fact_of(const AuditedHost& host, const char* name) {
  const auto found = host.facts.find(name);
  return found == host.facts.end() ? std::nullopt : found->second.text;
}

/// Returns a reader of a kernel parameter, such as "kernel.numa_balancing", that is costly if it is 1.
Read parameter_is_on(const std::string& name) {
  std::string file = name;
  std::replace(file.begin(), file.end(), '.', '/');
  return [name, file](const AuditedHost& host) {
    return line_of(host.root / "proc/sys" / file) == "1" ? Found(name + " is 1") : std::nullopt;
  };
}

/// Returns the word in brackets, as in "default performance [powersave]", if it is `bad`.
Found if_chosen(const Path& file, const std::string& bad, const std::string& what) {
  return line_of(file).value_or("").find("[" + bad + "]") != std::string::npos ? Found(what + " is " + bad)
                                                                               : std::nullopt;
}

std::string config_space(const Path& device) { return content_of(device / "config").value_or(""); }

std::uint32_t word_at(const std::string& config, std::size_t at, int bytes) {
  std::uint32_t word = 0;
  for (int i = bytes; i-- > 0;) word = word << 8 | static_cast<unsigned char>(config[at + static_cast<std::size_t>(i)]);
  return word;
}

/// True if Access Control Services send requests between devices through the root complex: bits 2 to 4 of the control
/// register of the extended capability 0x0D (PCI Express base specification, 7.7.11). Only root can read this register.
bool redirects_peers(const std::string& config) {
  constexpr std::uint32_t acs = 0x0d, redirect = 0x1c;
  std::set<std::size_t> seen;
  for (std::size_t at = 0x100; at >= 0x100 && at + 8 <= config.size() && seen.insert(at).second;) {
    const auto header = word_at(config, at, 4);
    if ((header & 0xffff) == acs) return (word_at(config, at + 6, 2) & redirect) != 0;
    at = header >> 20;
  }
  return false;
}

Found acs(const AuditedHost& host) {
  if (host.bus.gpus.empty()) return std::nullopt;
  std::vector<std::string> bridges;
  for (const auto& address : host.bus.bridges) {
    if (redirects_peers(config_space(host.root / "sys/bus/pci/devices" / address))) bridges.push_back(address);
  }
  if (bridges.empty()) return std::nullopt;
  return plural(bridges.size(), "PCIe bridge") + " with ACS redirection, first " + bridges.front();
}

Found iommu(const AuditedHost& host) {
  const auto units = names_in(host.root / "sys/class/iommu").value_or(std::vector<std::string>{});
  const auto command = line_of(host.root / "proc/cmdline").value_or("");
  const bool passes =
      command.find("iommu=pt") != std::string::npos || command.find("iommu.passthrough=1") != std::string::npos;
  if (units.empty() || passes || command.empty()) return std::nullopt;
  return "an IOMMU is on without iommu=pt";
}

Found gdrcopy(const AuditedHost& host) {
  if (host.bus.gpus.empty() || is_visible(host.root / "sys/module/gdrdrv")) return std::nullopt;
  return "the module gdrdrv is not loaded";
}

Found nouveau(const AuditedHost& host) {
  return is_visible(host.root / "sys/module/nouveau") ? Found("the module nouveau is loaded") : std::nullopt;
}

Found slow_governor(const AuditedHost& host) {
  const auto found = fact_of(host, "governor");
  return found && *found != "performance" ? Found("the governor is " + *found) : std::nullopt;
}

Found uverbs(const AuditedHost& host) {
  const auto devices = names_in(host.root / "sys/class/infiniband").value_or(std::vector<std::string>{});
  const auto nodes = names_in(host.root / "dev/infiniband").value_or(std::vector<std::string>{});
  const bool can_open =
      std::any_of(nodes.begin(), nodes.end(), [](const std::string& name) { return name.starts_with("uverbs"); });
  if (devices.empty() || can_open || !is_visible(host.root / "dev")) return std::nullopt;
  return "there are NICs and no /dev/infiniband/uverbs*";
}

Found aspm(const AuditedHost& host) {
  const auto file = host.root / "sys/module/pcie_aspm/parameters/policy";
  auto found = if_chosen(file, "powersave", "the ASPM policy");
  return found ? found : if_chosen(file, "powersupersave", "the ASPM policy");
}

Found huge_pages(const AuditedHost& host) {
  return fact_of(host, "transparent_hugepages") == "never" ? Found("transparent_hugepage is never") : std::nullopt;
}

Found open_files(const AuditedHost& host) {
  const double limit = std::atof(fact_of(host, "open_files").value_or("").c_str());  // atof makes 0 of "unlimited"
  constexpr double min_open_files = 4096;  // NCCL opens a few sockets for each peer and channel
  if (limit <= 0 || limit >= min_open_files) return std::nullopt;
  return "the limit of open files is " + std::to_string(static_cast<long>(limit));
}

constexpr std::string_view nccl_variables = "NVIDIA, NCCL user guide, environment variables";

/// A variable of NCCL or CUDA. The given value costs speed.
struct CostlyVariable {
  const char* name;
  std::string_view value;  // empty: any value
  std::string_view cost;
};
constexpr std::array costly_variables{
    CostlyVariable{"NCCL_P2P_DISABLE", "1", "GPUs of a host exchange data through host memory"},
    CostlyVariable{"NCCL_P2P_LEVEL", "LOC", "GPUs of a host exchange data through host memory"},
    CostlyVariable{"NCCL_SHM_DISABLE", "1", "ranks of a host without P2P use the network"},
    CostlyVariable{"NCCL_IB_DISABLE", "1", "hosts exchange data over sockets"},
    CostlyVariable{"NCCL_NVLS_ENABLE", "0",
                   "NVSwitches do not compute sums, so AllReduce of 8 GPUs is up to a quarter slower"},
    CostlyVariable{"NCCL_NET_GDR_LEVEL", "LOC", "NICs copy through host memory"},
    CostlyVariable{"NCCL_NET", "Socket", "hosts exchange data over sockets"},
    CostlyVariable{"NCCL_ALGO", "", "NCCL does not choose the fastest algorithm for each size"},
    CostlyVariable{"NCCL_PROTO", "", "NCCL does not choose the fastest protocol for each size"},
    CostlyVariable{"NCCL_MAX_NCHANNELS", "", "NCCL may use fewer links than there are"},
    CostlyVariable{"NCCL_BUFFSIZE", "", "NCCL does not choose the size of its buffers"},
    CostlyVariable{"NCCL_CROSS_NIC", "0", "rings use one rail even if the switches connect the rails"},
    CostlyVariable{"NCCL_IB_PCI_RELAXED_ORDERING", "0", "NICs write to memory in order, which is slower"},
    CostlyVariable{"NCCL_DEBUG", "TRACE", "NCCL writes a line for each operation"},
    CostlyVariable{"CUDA_LAUNCH_BLOCKING", "1", "each launch waits for its kernel"},
    CostlyVariable{"CUDA_DEVICE_MAX_CONNECTIONS", "1", "kernels of different streams share one queue"},
};

// Returns the settings, the most costly first.
const std::array<Audit, 13>& audits() {
  static const std::array<Audit, 13> table{{
      {"acs", acs, "copies between GPUs and NICs go through the processor", "lspci -vvv | grep ACSCtl",
       "NVIDIA, NCCL user guide, troubleshooting: PCI access control"},
      {"iommu", iommu, "copies between GPUs and NICs are translated, or go through the processor", "cat /proc/cmdline",
       "NVIDIA, NCCL user guide, troubleshooting; Linux, kernel-parameters: iommu=pt"},
      {"uverbs", uverbs, "NCCL finds no InfiniBand or RoCE and uses sockets", "ls /dev/infiniband",
       "rdma-core: a container sees a NIC only if it has the files of it in /dev/infiniband"},
      {"nouveau", nouveau, "two drivers for one GPU: NVIDIA's may not load", "lsmod | grep nouveau",
       "NVIDIA driver installation guide: disable nouveau"},
      {"gdrcopy", gdrcopy, "small messages between hosts take some us longer", "modprobe gdrdrv",
       "NVIDIA/gdrcopy; UCX and NCCL plugins use it for small messages"},
      {"numa_balancing", parameter_is_on("kernel.numa_balancing"), "the kernel unmaps and moves pages of running jobs",
       "sysctl -w kernel.numa_balancing=0", "Linux, admin-guide/sysctl/kernel: numa_balancing"},
      {"zone_reclaim", parameter_is_on("vm.zone_reclaim_mode"),
       "a full NUMA node drops file caches instead of using another node", "sysctl -w vm.zone_reclaim_mode=0",
       "Linux, admin-guide/sysctl/vm: zone_reclaim_mode"},
      {"governor", slow_governor, "cores wake up slowly, so messages and kernels start late",
       "cpupower frequency-set -g performance", "cpupower-frequency-set(1)"},
      {"nmi_watchdog", parameter_is_on("kernel.nmi_watchdog"),
       "the NMI watchdog interrupts each core and occupies a performance counter", "sysctl -w kernel.nmi_watchdog=0",
       "Linux, admin-guide/lockup-watchdogs"},
      {"aspm", aspm, "PCIe links save power between transfers, so transfers start late",
       "cat /sys/module/pcie_aspm/parameters/policy", "Linux, kernel-parameters: pcie_aspm.policy=performance"},
      {"huge_pages", huge_pages, "large host buffers need 512 times as many page table entries",
       "cat /sys/kernel/mm/transparent_hugepage/enabled", "Linux, admin-guide/mm/transhuge"},
      {"open_files", open_files, "a large job cannot open enough sockets", "ulimit -n", "limits.conf(5): nofile"},
      {"panic_on_hang", parameter_is_on("kernel.hung_task_panic"), "a slow file server restarts the host",
       "sysctl -w kernel.hung_task_panic=0", "Linux, admin-guide/sysctl/kernel: hung_task_panic"},
  }};
  return table;
}

}  // namespace

std::vector<CostlySetting> audit_settings(const AuditedHost& host, const Environment& environment) {
  std::vector<CostlySetting> found;
  for (const Audit& audit : audits()) {
    if (auto value = audit.read(host)) {
      found.push_back({audit.name, std::move(*value), audit.cost, audit.command, audit.source});
    }
  }
  for (const FaultyVersion& faulty : faults_of("driver", fact_of(host, "driver").value_or(""))) {
    found.push_back({"driver_fault", "driver " + std::string(faulty.version), faulty.means,
                     "cat /proc/driver/nvidia/version", faulty.source});
  }
  const auto settings = nccl_environment(environment, host.root);
  for (const CostlyVariable& variable : costly_variables) {
    const auto value = settings(variable.name);
    if (!value || (!variable.value.empty() && *value != variable.value)) continue;
    found.push_back({variable.name, std::string(variable.name) + "=" + one_line(*value), variable.cost,
                     "unset the variable, or remove it from /etc/nccl.conf", nccl_variables});
  }
  return found;
}

Facts setting_facts(const CostlySetting& setting) {
  const auto text = [](std::string_view words) { return text_fact(std::string(words)); };
  return {{"setting", text(setting.name)},
          {"found", text(setting.found)},
          {"cost", text(setting.cost)},
          {"command", text(setting.command)},
          {"source", text(setting.source)}};
}

Fact faulty_versions_fact(std::string_view component, std::string_view version) {
  std::vector<std::string> faults;
  for (const FaultyVersion& faulty : faults_of(component, version)) {
    faults.push_back(std::string(component) + " " + std::string(version) + ": " + std::string(faulty.means) + " (" +
                     std::string(faulty.source) + ")");
  }
  return number_fact(static_cast<double>(faults.size()), joined(faults, "; "));
}

Fact audit_fact(const std::vector<CostlySetting>& settings) {
  std::vector<std::string> names;
  for (const CostlySetting& setting : settings) names.emplace_back(setting.name);
  return number_fact(static_cast<double>(settings.size()), joined(names));
}

}  // namespace shakedown
