#include "node/host_inventory.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/files.hpp"
#include "base/text.hpp"
#include "node/audit.hpp"
#include "node/gpu_facts.hpp"
#include "node/host_facts.hpp"
#include "node/ports.hpp"

namespace shakedown {

namespace {

using Path = std::filesystem::path;

void add(Facts& facts, const Facts& more) { facts.insert(more.begin(), more.end()); }

/// Counts the GPUs on the bus and in NVML, and finds GPUs on the bus that NVML does not report. A scheduler may have
/// hidden these because it did not assign them to the job.
void count_gpus(const std::optional<PciBus>& bus, const Nvml& nvml, const Environment& environment,
                HostInventory& inventory) {
  auto& facts = inventory.host;
  const auto size_of = [](const auto& list) { return number_fact(static_cast<double>(list.size())); };
  const auto* const on_bus = bus ? &bus->gpus : nullptr;
  facts["gpus_pci"] = bus ? size_of(bus->gpus) : Fact{};
  facts["nvswitches"] = bus ? size_of(bus->nvswitches) : Fact{};
  const bool none = on_bus && on_bus->empty();
  const auto count = nvml.device_count();
  facts["gpus_nvml"] = none    ? number_fact(0)
                       : count ? number_fact(*count)
                               : number_fact(std::nullopt, nvml.problem().empty() ? count.why() : nvml.problem());
  facts["gpus_missing"] = facts["gpus_not_isolated"] = {};
  const bool has_gpus = on_bus && !on_bus->empty();
  facts["nvml_fails"] = number_fact(has_gpus && !nvml.problem().empty() ? 1 : 0, has_gpus ? nvml.problem() : "");
  const auto scheduled = scheduled_gpus(environment);
  if (on_bus && scheduled && *scheduled < static_cast<int>(on_bus->size())) {
    const double seen = count ? *count : 0, lacking = std::max(0.0, *scheduled - seen);
    facts["gpus_missing"] = number_fact(
        lacking,
        lacking > 0 ? "the scheduler gave the job " + std::to_string(*scheduled) + " GPUs, and NVML shows fewer" : "");
  } else if (has_gpus && !nvml.problem().empty()) {
    facts["gpus_missing"] = number_fact(std::nullopt, "NVML fails: " + nvml.problem());
  } else if (on_bus) {
    std::vector<std::string> missing;
    for (const auto& address : *on_bus) {
      const bool known = std::any_of(inventory.gpus.begin(), inventory.gpus.end(),
                                     [&](Facts& gpu) { return gpu["pci"].text == address; });
      if (!known) missing.push_back(address + " is on the PCI bus, but not in NVML");
    }
    facts["gpus_missing"] = number_fact(static_cast<double>(missing.size()), joined(missing));
  }
  if (!scheduled) {
    facts["gpus_not_isolated"] = number_fact(0, "no scheduler");
  } else if (count) {
    const int beyond = std::max(0, static_cast<int>(*count) - *scheduled);
    facts["gpus_not_isolated"] =
        number_fact(beyond, beyond == 0 ? ""
                                        : "the scheduler gave the job " + std::to_string(*scheduled) +
                                              " GPUs, and the job sees " + std::to_string(*count));
  }
}

void read_gpus(const Path& root, const Nvml& nvml, const std::optional<KernelLog>& log, const std::vector<int>& waiting,
               HostInventory& inventory) {
  const auto xids = log ? std::optional(log->xids) : std::nullopt;
  for (const auto& gpu : nvml.gpus()) {
    auto facts = gpu_facts(gpu, xids, root);
    add(facts, nvlink_facts(gpu));
    facts["processes"] = process_fact(gpu, waiting);
    inventory.gpus.push_back(std::move(facts));
    inventory.links.push_back(each_nvlink(gpu).value_or(std::vector<Facts>{}));
  }
}

/// Looks for the process of Fabric Manager. In a container this finds nothing, because a container cannot see the
/// processes of its host.
Fact fabric_manager(const Path& root) {
  const auto names = names_in(root / "proc");
  if (!names) return {};
  for (const auto& name : *names) {
    if (std::isdigit(static_cast<unsigned char>(name.front())) == 0) continue;
    // The name in comm has at most 15 characters.
    if (line_of(root / "proc" / name / "comm") == "nv-fabricmanage") return number_fact(1);
  }
  return number_fact(0, "no process nv-fabricmanager is seen here");
}

std::optional<std::string> driver(const Path& root, const Nvml& nvml) {
  if (const auto version = nvml.driver_version()) return *version;
  return line_of(root / "sys/module/nvidia/version");
}

}  // namespace

Path fact_root(const Environment& environment) { return environment("SHAKEDOWN_ROOT").value_or("/"); }

HostInventory read_host(const Path& root, const Nvml& nvml, const Environment& environment, const Path& folder,
                        const std::vector<std::string>& rails, const std::vector<int>& waiting) {
  HostInventory inventory;
  const auto log = read_kernel_log(root);
  read_gpus(root, nvml, log, waiting, inventory);
  auto& host = inventory.host;
  add(host, kernel_log_facts(log));
  for (const auto& part : {cpu_facts(root), memory_facts(root), dram_facts(root), limit_facts(root),
                           disk_facts(root, folder), system_facts(root)}) {
    add(host, part);
  }
  const auto listed = read_pci_bus(root / "sys");
  const PciBus bus = listed.value_or(PciBus{});
  count_gpus(listed, nvml, environment, inventory);
  host["driver"] = text_fact(driver(root, nvml));
  host["fabric_manager"] = fabric_manager(root);

  const auto ports = read_ports(root, bus.gpus, rails);
  for (const auto& rail : rails_of(ports)) inventory.rails.push_back(rail.name());
  add(host, network_facts(ports));
  add(host, rail_facts(root, bus.gpus, ports));
  host["gpudirect_rdma"] = gpudirect_rdma(root);

  const auto settings = audit_settings({root, bus, host}, environment);
  host["costly_settings"] = audit_fact(settings);
  for (const auto& setting : settings) inventory.settings.push_back(setting_facts(setting));

  std::vector<Topology::Device> devices;
  for (auto& gpu : inventory.gpus) {
    devices.push_back({"GPU" + std::to_string(devices.size()), gpu["pci"].text,
                       static_cast<int>(gpu["nvlinks_up"].number.value_or(0))});
  }
  for (const auto& port : ports.value_or(std::vector<Port>{})) {
    inventory.ports.push_back(port_facts(port));
    if (devices.empty() || devices.back().name != port.device) devices.push_back({port.device, port.pci, 0});
  }
  inventory.topology = read_topology(root, std::move(devices));
  return inventory;
}

std::string nccl_settings(const Environment& environment, const Path& root) {
  std::vector<std::string> words;
  for (const auto& [name, value] : tuning(environment, root)) {
    if (name.find("NCCL_") != std::string::npos) words.push_back(name + "=" + value);
  }
  return words.empty() ? "none" : joined(words);
}

std::optional<std::string> cudnn_version() {
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };
  const std::unique_ptr<void, Close> library(dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL));
  if (!library) return std::nullopt;
  const auto version = reinterpret_cast<std::size_t (*)()>(dlsym(library.get(), "cudnnGetVersion"));
  if (version == nullptr) return std::nullopt;
  const auto code = version();  // 91400
  return std::to_string(code / 10000) + "." + std::to_string(code % 10000 / 100) + "." + std::to_string(code % 100);
}

std::string slurm_job(const Environment& environment) {
  const auto job = environment("SLURM_JOB_ID");
  if (!job) return "none";
  std::string text = "job " + *job;
  if (const auto step = environment("SLURM_STEP_ID")) text += ", step " + *step;
  if (const auto node = environment("SLURMD_NODENAME")) text += ", node " + *node;
  return text;
}

}  // namespace shakedown
