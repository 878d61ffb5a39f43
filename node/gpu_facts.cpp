#include "node/gpu_facts.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "base/known_events.hpp"
#include "base/text.hpp"
#include "node/topology.hpp"

namespace shakedown {

namespace {

template <class Number>
Fact fact_of(const Answer<Number>& answer, double unit = 1) {
  return answer ? number_fact(static_cast<double>(*answer) / unit) : number_fact(std::nullopt, answer.why());
}
Fact fact_of(const Answer<bool>& answer) {
  return answer ? yes_or_no(*answer) : number_fact(std::nullopt, answer.why());
}
/// Returns a text as a fact. If the text is unknown, there is no explanation, because it would be read as the text.
Fact text_of(const Answer<std::string>& answer) { return text_fact(answer ? std::optional(*answer) : std::nullopt); }

/// Returns a member of a struct, or the reason why the struct is unknown.
template <class Whole, class Part>
Fact part_of(const Answer<Whole>& answer, Part part, double unit = 1) {
  return answer ? number_fact(static_cast<double>(part(*answer)) / unit) : number_fact(std::nullopt, answer.why());
}

void add_memory_errors(const NvmlGpu& gpu, Facts& facts) {
  facts["ecc"] = part_of(gpu.ecc(), [](const Modes& m) { return m.now; });
  facts["ecc_uncorrected"] = fact_of(gpu.ecc_errors(EccErrors::uncorrected, EccSince::reset));
  facts["ecc_corrected"] = fact_of(gpu.ecc_errors(EccErrors::corrected, EccSince::reset));
  facts["ecc_uncorrected_ever"] = fact_of(gpu.ecc_errors(EccErrors::uncorrected, EccSince::manufacture));
  facts["ecc_corrected_ever"] = fact_of(gpu.ecc_errors(EccErrors::corrected, EccSince::manufacture));
  const auto rows = gpu.remapped_rows();
  facts["rows_remapped"] = part_of(rows, [](const RemappedRows& r) { return r.corrected + r.uncorrected; });
  facts["remap_pending"] = part_of(rows, [](const RemappedRows& r) { return r.pending; });
  facts["remap_failed"] = part_of(rows, [](const RemappedRows& r) { return r.failed; });
  const auto pages = gpu.retired_pages();
  facts["pages_retired"] = part_of(pages, [](const RetiredPages& p) { return p.single_bit + p.double_bit; });
}

/// Returns the reasons of power or heat that limit the clock, by name. Call it for a GPU at rest: under load a power
/// limit is normal.
Fact throttle_fact(const NvmlGpu& gpu) {
  const auto reasons = gpu.clock_reasons();
  if (!reasons) return number_fact(std::nullopt, reasons.why());
  constexpr std::array<std::pair<ClockReason, const char*>, 5> harmful{
      {{ClockReason::sw_power_cap, "power cap (software)"},
       {ClockReason::hw_slowdown, "slowdown (hardware)"},
       {ClockReason::sw_thermal, "heat (software)"},
       {ClockReason::hw_thermal, "heat (hardware)"},
       {ClockReason::hw_power_brake, "power brake (hardware)"}}};
  std::vector<std::string> names;
  for (const auto& [reason, name] : harmful) {
    if ((*reasons & static_cast<std::uint64_t>(reason)) != 0) names.emplace_back(name);
  }
  return number_fact(static_cast<double>(names.size()), joined(names));
}

/// Returns the action that the driver recommends, in the words of nvmlDeviceGpuRecoveryAction_t.
Fact recovery_fact(const NvmlGpu& gpu) {
  const auto action = gpu.recovery_action();
  if (!action) return number_fact(std::nullopt, action.why());
  constexpr std::array words{"",
                             "reset the GPU",
                             "restart the host",
                             "drain peer traffic",
                             "drain peer traffic and reset the GPU",
                             "recover the IMEX domain",
                             "reset the PCIe bus of the GPU",
                             "restart the system"};
  return number_fact(*action, *action < words.size() ? words[*action] : "an action that this version does not know");
}

/// Returns the number of errors, with a text such as "XID 79, 3 x XID 48".
Fact counted(const std::map<int, int>& times_by_code, const std::string& file) {
  double sum = 0;
  std::vector<std::string> words;
  for (const auto& [code, times] : times_by_code) {
    sum += times;
    words.push_back((times > 1 ? std::to_string(times) + " x " : "") + "XID " + std::to_string(code));
  }
  const bool is_unsure = !words.empty() && !file.empty();
  return number_fact(sum, joined(words) + (is_unsure ? " in " + file + ", which any user can write" : ""));
}

void add_xids(const std::optional<std::string>& pci, const std::optional<std::vector<Xid>>& xids, Facts& facts) {
  if (!xids || !pci) {
    const auto why = xids ? "the PCI address of the GPU is unknown" : "the kernel's log cannot be read";
    facts["xids"] = facts["xids_condemning"] = facts["xids_of_programs"] = number_fact(std::nullopt, why);
    return;
  }
  std::map<int, int> faults, condemning, harmless;  // by code: the number of errors
  std::string action;                               // of an XID 154
  for (const auto& xid : *xids) {
    if (xid.pci != *pci) continue;
    // Only the kernel's own log can condemn a GPU, because any user can write such a line to the other logs.
    const bool is_condemning = (condemns(xid.code) || xid.action) && xid.file.empty();
    if (is_condemning && xid.action) action = " (" + one_line(*xid.action) + ")";
    ++(is_harmless(xid.code) ? harmless : is_condemning ? condemning : faults)[xid.code];
  }
  const std::string file = xids->empty() ? "" : xids->front().file;
  facts["xids"] = counted(faults, file);
  facts["xids_of_programs"] = counted(harmless, file);
  facts["xids_condemning"] = counted(condemning, file);
  auto& text = facts["xids_condemning"].text;
  for (const auto& [code, times] : condemning) {
    *text += "; XID " + std::to_string(code) + ": " + advice_on("xid_" + std::to_string(code));
    if (code == 154) *text += action;
  }
}

/// True if the two bits of the fabric's health mask at `shift` are 1, which means yes. 2 means no and 0 means unknown
/// (NVML, GpuFabricInfoV).
bool says_yes(unsigned mask, unsigned shift) { return (mask >> shift & 3U) == 1; }

void add_fabric(const NvmlGpu& gpu, Facts& facts) {
  const auto fabric = gpu.fabric();
  if (!fabric) {
    facts["fabric"] = {};
    facts["fabric_trouble"] = number_fact(std::nullopt, fabric.why());
    return;
  }
  constexpr std::array states{"not supported", "not started", "in progress", "completed"};
  facts["fabric"] = text_fact(fabric->state < states.size() ? states[fabric->state] : "unknown state");
  std::vector<std::string> trouble;
  if (fabric->state == 1 || fabric->state == 2) trouble.push_back("registration " + *facts["fabric"].text);
  if (fabric->state == 3 && fabric->status != 0) {
    trouble.push_back("registration ended with error " + std::to_string(fabric->status));
  }
  constexpr std::array<std::pair<unsigned, const char*>, 4> complaints{
      {{0, "degraded bandwidth"}, {2, "recovering a route"}, {4, "unhealthy route"}, {6, "recovering from a timeout"}}};
  for (const auto& [shift, words] : complaints) {
    if (fabric->state == 3 && says_yes(fabric->health_mask, shift)) trouble.emplace_back(words);
  }
  facts["fabric_trouble"] = number_fact(static_cast<double>(trouble.size()), joined(trouble));
}

}  // namespace

Facts gpu_facts(const NvmlGpu& gpu, const std::optional<std::vector<Xid>>& xids, const std::filesystem::path& root) {
  Facts facts;
  const auto pci = gpu.pci();
  facts["gpu"] = text_of(gpu.name());
  facts["uuid"] = text_of(gpu.uuid());
  facts["serial"] = text_of(gpu.serial());
  facts["pci"] = text_of(pci);
  facts["vbios"] = text_of(gpu.vbios());
  facts["memory_gb"] = part_of(
      gpu.memory(), [](const GpuMemory& m) { return m.total; }, 1e9);
  facts["memory_used_gb"] = part_of(
      gpu.memory(), [](const GpuMemory& m) { return m.used; }, 1e9);
  facts["mig"] = part_of(gpu.mig(), [](const Modes& m) { return m.now; });
  facts["persistence"] = fact_of(gpu.persistence());
  facts["compute_mode"] = fact_of(gpu.compute_mode());
  facts["vgpu"] = fact_of(gpu.vgpu());
  facts["confidential"] = fact_of(gpu.confidential());
  add_memory_errors(gpu, facts);
  facts["recovery_action"] = recovery_fact(gpu);
  add_xids(pci ? std::optional(*pci) : std::nullopt, xids, facts);
  facts["pcie_gen"] = fact_of(gpu.pcie_generation());
  facts["pcie_gen_max"] = fact_of(gpu.pcie_generation_max());
  facts["pcie_width"] = fact_of(gpu.pcie_width());
  facts["pcie_width_max"] = fact_of(gpu.pcie_width_max());
  facts["pcie_replays"] = fact_of(gpu.pcie_replays());
  facts["sm_mhz"] = fact_of(gpu.sm_mhz());
  facts["sm_mhz_max"] = fact_of(gpu.sm_mhz_max());
  facts["memory_mhz"] = fact_of(gpu.memory_mhz());
  facts["memory_mhz_max"] = fact_of(gpu.memory_mhz_max());
  facts["throttled"] = throttle_fact(gpu);
  facts["power_w"] = fact_of(gpu.power_w());
  facts["power_limit_w"] = fact_of(gpu.power_limit_w());
  facts["temperature_c"] = fact_of(gpu.temperature_c());
  facts["memory_temperature_c"] = fact_of(gpu.memory_temperature_c());
  facts["numa"] = number_fact(pci ? numa_of(root, *pci) : std::nullopt);
  return facts;
}

Fact process_fact(const NvmlGpu& gpu, const std::vector<int>& waiting) {
  const auto processes = gpu.processes();
  if (!processes) return number_fact(std::nullopt, processes.why());
  std::vector<std::string> words;
  std::size_t count = processes->size();
  for (const auto& process : *processes) {
    std::string text = "pid " + std::to_string(process.pid);
    if (process.name) text += " (" + *process.name + ")";
    if (process.memory_bytes) text += fmt::format(" with {:.1f} GB", static_cast<double>(*process.memory_bytes) / 1e9);
    if (process.is_one_of(waiting)) {
      text += ", which waits for this gate";
      --count;
    }
    words.push_back(std::move(text));
  }
  return number_fact(static_cast<double>(count), joined(words));
}

Facts nvlink_facts(const NvmlGpu& gpu) {
  Facts facts;
  const auto links = gpu.links();
  for (const auto* name : {"nvlinks", "nvlinks_up", "nvlink_gb_per_s", "nvlink_errors"}) {
    facts[name] = number_fact(std::nullopt, links ? "" : links.why());
  }
  add_fabric(gpu, facts);
  if (!links) return facts;
  double up = 0, gb_per_s = 0, errors = 0;
  bool speeds_known = true, counters_known = true;
  std::vector<std::string> down, erring;
  for (const auto& link : *links) {
    const auto name = "link " + std::to_string(link.number);
    if (!link.active || !*link.active) {
      down.push_back(name + (link.active ? " is down" : " is " + link.active.why()));
      continue;
    }
    ++up;
    speeds_known = speeds_known && link.speed_mbps;
    if (link.speed_mbps) gb_per_s += *link.speed_mbps / 1e3;
    double mine = 0;
    for (const auto* counter : {&link.errors.replays, &link.errors.recoveries, &link.errors.crc}) {
      counters_known = counters_known && *counter;
      if (*counter) mine += static_cast<double>(**counter);
    }
    if (mine > 0) erring.push_back(name + ": " + std::to_string(static_cast<long long>(mine)));
    errors += mine;
  }
  facts["nvlinks"] = number_fact(static_cast<double>(links->size()));
  facts["nvlinks_up"] = number_fact(up, joined(down));
  if (speeds_known) facts["nvlink_gb_per_s"] = number_fact(gb_per_s);
  if (counters_known) facts["nvlink_errors"] = number_fact(errors, joined(erring));
  return facts;
}

std::optional<std::vector<Facts>> each_nvlink(const NvmlGpu& gpu) {
  const auto links = gpu.links();
  if (!links) return std::nullopt;
  std::vector<Facts> rows;
  for (const auto& link : *links) {
    Facts row;
    row["link"] = number_fact(link.number);
    row["active"] = fact_of(link.active);
    row["gb_per_s"] = fact_of(link.speed_mbps, 1e3);
    row["replays"] = fact_of(link.errors.replays);
    row["recoveries"] = fact_of(link.errors.recoveries);
    row["crc_errors"] = fact_of(link.errors.crc);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace shakedown
