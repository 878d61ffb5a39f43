#include "thresholds/catalogue/preflight_facts.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace shakedown {
namespace {

/// The facts under one key. The lists are names, divided by blanks.
struct Part {
  std::string_view key;
  bool of_host;
  std::string_view numbers, texts;
};

constexpr std::array parts{
    Part{"preflight/of:host", true,
         "sockets cores smt memory_gb memory_free_gb numa_nodes hugepages_gb shm_gb shm_free_gb disk_free_gb "
         "gpus_pci gpus_nvml nvml_fails gpus_missing gpus_missing_in_cuda gpus_not_isolated nvswitches "
         "fabric_manager ib_ports ib_ports_down ib_ports_init roce_ports roce_ports_down ib_rate_gbit "
         "ib_link_downed roce_rate_gbit efa_ports efa_rate_gbit roce_mtu roce_ports_without_v2 ports_slow "
         "ports_with_errors nics nics_far gpudirect_rdma uptime_days tasks_in_d_state sxids sxids_nonfatal "
         "kernel_log_faults costly_settings edac_uncorrected edac_corrected dimms_slow dram_mt_per_s "
         "roce_without_dscp roce_without_ecn roce_without_pfc bmc_faults fans_failed",
         "cpu governor transparent_hugepages memlock open_files mount kernel os clocksource vendor product driver "
         "ib_firmware roce_gid_index roce_pfc rails rail_ports rail_names"},
    Part{"preflight/of:gpu", false,
         "cuda_opens memory_gb memory_used_gb mig persistence compute_mode vgpu confidential jit_s ecc "
         "ecc_uncorrected ecc_corrected ecc_uncorrected_ever ecc_corrected_ever rows_remapped remap_pending "
         "remap_failed pages_retired recovery_action xids xids_of_programs xids_condemning pcie_gen pcie_gen_max "
         "pcie_width pcie_width_max pcie_replays sm_mhz sm_mhz_max memory_mhz memory_mhz_max throttled power_w "
         "power_limit_w temperature_c memory_temperature_c numa processes multicast",
         "gpu uuid serial pci vbios"},
    Part{"preflight/of:nvlink", false, "nvlinks nvlinks_up nvlink_gb_per_s nvlink_errors fabric_trouble", "fabric"},
    Part{"preflight/of:software", false, "faulty_versions", "cuda cublaslt cudnn nccl mpi nccl_settings gpu_mask"},
    Part{"preflight/of:binding", false, "ranks_per_core numa_near ranks_apart", "cpus slurm_job"},
    Part{"preflight/of:clock", true, "clock_offset_ms", ""},
    Part{"preflight/of:network", true, "hosts_unreachable interface_mtu", "interface"},
    Part{"preflight/of:slurm", true, "slurm_answers slurm_drained slurm_gpus_missing slurm_gpus_unlisted",
         "slurm_state"},
    Part{"preflight/of:dcgm", true, "dcgm_answers dcgm_failed dcgm_warned", "dcgm_version"},
    Part{"preflight/of:dcgm_gpu", false, "dcgm_answers dcgm_failed dcgm_warned", ""},
    Part{"preflight/of:folder", true,
         "files_missing files_differing appends_lost locks_broken write_gb_per_s read_gb_per_s", ""},
};

const Part* part_of(std::string_view key) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.key == key; });
  return found == parts.end() ? nullptr : &*found;
}

bool contains(std::string_view names, std::string_view name) {
  const auto all = split(std::string(names), ' ');
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

std::optional<FactKind> fact_kind(std::string_view key, std::string_view name) {
  const Part* part = part_of(key);
  if (part == nullptr) return std::nullopt;
  if (contains(part->numbers, name)) return FactKind::number;
  return contains(part->texts, name) ? std::optional(FactKind::text) : std::nullopt;
}

std::string known_facts(std::string_view key) {
  std::string text;
  const auto add = [&](std::string_view name) { text.append(text.empty() ? "" : ", ").append(name); };
  const Part* part = part_of(key);
  if (part == nullptr) {
    for (const Part& known : parts) add(known.key);
    return text;
  }
  for (const auto names : {part->numbers, part->texts}) {
    for (const auto& name : split(std::string(names), ' ')) add(name);
  }
  return text;
}

bool is_of_host(std::string_view key) {
  const Part* part = part_of(key);
  return part != nullptr && part->of_host;
}

}  // namespace shakedown
