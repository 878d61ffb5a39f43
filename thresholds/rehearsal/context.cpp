// The context of a result file: the machine, the versions and the facts of its ranks and hosts.
#include <fmt/format.h>

#include <utility>

#include "thresholds/rehearsal/fleet.hpp"
#include "thresholds/rehearsal/random.hpp"

namespace shakedown::rehearsal {

Context Fleet::context(const PlannedFamily& family) const {
  const Shape& shape = machine_.shape;
  Context context;
  context.suite = {"0.1.0", "rehearsal", "Release"};
  context.run_id = fmt::format("rehearsal-{:016x}", mixed(noise_seed_, hash("run")));
  context.started = "2026-11-26T00:00:00Z";
  context.complete = true;
  context.seconds = 10;
  context.backend = Backend::cuda;
  context.tier = order_.tier;
  if (order_.tier == Tier::gate) {
    for (const PlannedFamily& of_gate : plan_) context.asked.families.names.push_back(of_gate.name);
  }
  context.world_size = shape.ranks();
  context.hosts = shape.hosts;
  context.argv = {"--tier=" + std::string(name(order_.tier)), "--families=" + family.name};
  context.versions = {{"benchmark", "1.8.3"},   {"cublaslt", "13.1.0"},     {"cuda", "13.0"},  {"cudnn", "9.14.0"},
                      {"driver", "580.159.04"}, {"mpi", "Open MPI v4.1.6"}, {"nccl", "2.28.3"}};
  context.environment = {{"NCCL_NVLS_ENABLE", "0"}};
  context.nccl.nvls = "off";
  if (family.name == "allreduce" || family.name == "collectives" || family.name == "lora_step") {
    context.nccl.transport = "P2P";
    if (shape.hosts > 1) context.nccl.transport_between_hosts = "NET";
  }
  context.telemetry = "every 10 ms";
  context.plan = current_plan;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const Gpu& gpu = machine_.gpu(rank);
    const int local = rank % shape.gpus;
    RankFacts facts{rank,
                    machine_.host(rank).name,
                    local,
                    "NVIDIA H200",
                    gpu.uuid,
                    gpu.serial,
                    gpu.pci,
                    150109880320,
                    local < 4 ? 0 : 1,
                    local < 4 ? "0-47" : "48-95"};
    facts.sm_mhz_max = max_mhz;
    facts.power_limit_w = gpu.power_limit_w;
    facts.processes.emplace();
    facts.memory_kept_mib = 2;
    context.ranks.push_back(std::move(facts));
  }
  for (const Host& host : machine_.hosts) {
    HostFacts facts{host.name, shape.gpus, shape.gpus, std::nullopt, std::nullopt, "/sys/module/nvidia"};
    if (shape.leaves_are_known && shape.hosts > 1) facts.leaf = host.leaf;
    context.inventory.push_back(std::move(facts));
  }
  return context;
}

}  // namespace shakedown::rehearsal
