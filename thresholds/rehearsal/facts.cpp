// The pre-flight facts of a simulated machine. The facts are those of ci/baselines/h200-sxm/2ranks/1, changed to an HGX
// with 8 GPUs, two sockets and a NIC for each GPU.
#include <fmt/format.h>

#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown::rehearsal {

namespace {

using Numbers = std::vector<std::pair<const char*, double>>;
using Texts = std::vector<std::pair<const char*, const char*>>;

constexpr double nic_gbit = 400;

/// Sets these values on all ranks; if `of_host`, only on the first rank of each host.
void fill(Row& row, const Shape& shape, bool of_host, const Numbers& numbers, const Texts& texts) {
  const auto ranks = static_cast<std::size_t>(shape.ranks()), step = static_cast<std::size_t>(of_host ? shape.gpus : 1);
  const auto set = [&](auto& column, const auto& value) {
    column.resize(ranks);
    for (std::size_t rank = 0; rank < ranks; rank += step) column[rank] = value;
  };
  for (const auto& [name, value] : numbers) set(row.by_rank[name], value);
  for (const auto& [name, value] : texts) set(row.text_by_rank[name], std::string(value));
}

void fill_host(Row& row, const Shape& shape) {
  const double gpus = shape.gpus, ports = shape.hosts > 1 ? shape.gpus : 0;
  fill(row, shape, true,
       {{"cores", 96},
        {"disk_free_gb", 1368.3},
        {"fabric_manager", 1},
        {"gpudirect_rdma", 1},
        {"gpus_missing", 0},
        {"gpus_missing_in_cuda", 0},
        {"gpus_not_isolated", 0},
        {"gpus_nvml", gpus},
        {"gpus_pci", gpus},
        {"hugepages_gb", 0},
        {"ib_ports", ports},
        {"ib_ports_down", 0},
        {"memory_free_gb", 2100},
        {"memory_gb", 2164},
        {"numa_nodes", 2},
        {"nvswitches", 4},
        {"ports_slow", 0},
        {"roce_ports", 0},
        {"roce_ports_down", 0},
        {"roce_ports_without_v2", 0},
        {"shm_free_gb", 1081},
        {"shm_gb", 1082},
        {"smt", 1},
        {"sockets", 2}},
       {{"clocksource", "tsc"},
        {"cpu", "Intel(R) Xeon(R) Platinum 8468"},
        {"driver", "580.159.04"},
        {"governor", "performance"},
        {"gpudirect_rdma", "nvidia_peermem"},
        {"gpus_not_isolated", "no scheduler"},
        {"ib_firmware", ports > 0 ? "28.43.2566" : "no ports"},
        {"kernel", "6.8.0-60-generic"},
        {"memlock", "unlimited"},
        {"mount", "ext4 /dev/nvme0n1p2 on /"},
        {"open_files", "1048576"},
        {"os", "Ubuntu 24.04.3 LTS"},
        {"transparent_hugepages", "madvise"}});
  if (ports > 0) fill(row, shape, true, {{"ib_rate_gbit", nic_gbit}, {"ib_link_downed", 0}, {"nics_far", 0}}, {});
}

void fill_gpu(Row& row, const Machine& machine) {
  const Shape& shape = machine.shape;
  fill(row, shape, false,
       {{"compute_mode", 0},
        {"cuda_opens", 1},
        {"ecc", 1},
        {"ecc_corrected", 0},
        {"ecc_corrected_ever", 0},
        {"ecc_uncorrected", 0},
        {"ecc_uncorrected_ever", 0},
        {"memory_gb", 150.754820096},
        {"memory_mhz", 3201},
        {"memory_mhz_max", 3201},
        {"memory_used_gb", 0.648413184},
        {"mig", 0},
        {"pcie_gen", 5},
        {"pcie_gen_max", 5},
        {"pcie_replays", 0},
        {"pcie_width_max", 16},
        {"persistence", 1},
        {"power_w", 122},
        {"processes", 0},
        {"remap_failed", 0},
        {"remap_pending", 0},
        {"rows_remapped", 0},
        {"sm_mhz", max_mhz},
        {"sm_mhz_max", max_mhz},
        {"throttled", 0},
        {"xids", 0},
        {"xids_of_programs", 0}},
       {{"gpu", "NVIDIA H200"}, {"pages_retired", "not supported"}});
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const Gpu& gpu = machine.gpu(rank);
    row.by_rank["temperature_c"].emplace_back(std::round(36 + gpu.degrees_c / 2));
    row.by_rank["memory_temperature_c"].emplace_back(std::round(37 + gpu.degrees_c / 2));
    row.by_rank["pcie_width"].emplace_back(gpu.pcie_lanes);
    row.by_rank["power_limit_w"].emplace_back(gpu.power_limit_w);
    row.by_rank["numa"].emplace_back(rank % shape.gpus < 4 ? 0 : 1);
    row.text_by_rank["pci"].emplace_back(gpu.pci);
    row.text_by_rank["serial"].emplace_back(gpu.serial);
    row.text_by_rank["uuid"].emplace_back(gpu.uuid);
    row.text_by_rank["vbios"].emplace_back(gpu.other_vbios ? "96.00.B9.00.01" : "96.00.A5.00.1A");
  }
}

}  // namespace

Row facts_row(const Machine& machine, const std::string& key) {
  const Shape& shape = machine.shape;
  Row row;
  row.key = Key(key);
  row.real_time = 1e-4;
  if (key == "preflight/of:host") fill_host(row, shape);
  if (key == "preflight/of:gpu") fill_gpu(row, machine);
  if (key == "preflight/of:nvlink") {
    fill(row, shape, false, {{"fabric_trouble", 0}, {"nvlink_errors", 0}, {"nvlinks", 18}}, {{"fabric", "completed"}});
    for (int rank = 0; rank < shape.ranks(); ++rank) row.by_rank["nvlinks_up"].emplace_back(machine.gpu(rank).links_up);
  }
  if (key == "preflight/of:software") {
    fill(row, shape, false, {},
         {{"cublaslt", "13.1.0"},
          {"cuda", "13.0"},
          {"cudnn", "9.14.0"},
          {"gpu_mask", "none"},
          {"mpi", "Open MPI v4.1.6"},
          {"nccl", "2.28.3"},
          {"nccl_settings", "NCCL_NVLS_ENABLE=0"}});
  }
  if (key == "preflight/of:binding") {
    fill(row, shape, false, {{"numa_near", 1}, {"ranks_per_core", 0.0833}}, {{"slurm_job", "none"}});
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      row.text_by_rank["cpus"].emplace_back(rank % shape.gpus < 4 ? "0-47" : "48-95");
    }
  }
  if (key == "preflight/of:clock") fill(row, shape, true, {{"clock_offset_ms", 0.01}}, {});
  if (key == "preflight/of:network") fill(row, shape, true, {{"hosts_unreachable", 0}}, {{"interface", "eth0"}});
  return row;
}

}  // namespace shakedown::rehearsal
