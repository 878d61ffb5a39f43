// Pre-flight: checks that this is the machine that was ordered, and that it is healthy. Pre-flight reads facts in
// seconds, before any benchmark runs, and the rules of the profile judge them. If CUDA cannot open a GPU, this is a
// fact, and pre-flight continues.
//
//   mpirun -np 4 build/bench/bench_preflight --benchmark_format=json > preflight.json
//   mpirun -np 4 build/bench/bench_preflight --shared-folder=/home/me --dcgm=1
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <set>
#include <tuple>

#include "base/archive.hpp"
#include "bench/preflight/reach.hpp"
#include "bench/preflight/shared_folder.hpp"
#include "fixtures/plan/session.hpp"
#include "node/audit.hpp"
#include "node/binding.hpp"
#include "node/chassis.hpp"
#include "node/dcgm.hpp"
#include "node/flow_control.hpp"
#include "node/gpu_facts.hpp"
#include "node/slurm.hpp"

namespace shakedown {

namespace {

bool speaks_for_host(World& world) { return world.on_host().rank() == 0; }

/// Returns the number of GPUs that NVML reports and CUDA does not. 0 if a setting hides GPUs on purpose.
Fact missing_in_cuda(const InspectionContext& context) {
  if (const auto mask = gpu_mask(process_environment())) return number_fact(0, mask->text);
  const auto nvml = context.host.host.find("gpus_nvml");
  if (nvml == context.host.host.end() || !nvml->second.number) return number_fact(std::nullopt, "NVML shows no GPUs");
  const auto cuda = probe(Backend::cuda);
  const double missing = std::max(0.0, *nvml->second.number - cuda.devices);
  return number_fact(missing, missing > 0 ? "CUDA shows " + std::to_string(cuda.devices) +
                                                (cuda.reason.empty() ? "" : ": " + cuda.reason)
                                          : "");
}

Facts host_facts(World& world, const InspectionContext& context) {
  if (!speaks_for_host(world)) return {};
  auto facts = context.host.host;
  if (context.backend == Backend::cuda) facts["gpus_missing_in_cuda"] = missing_in_cuda(context);
  facts.merge(fan_facts(context.root));
  facts.merge(bmc_facts(read_bmc_log(context.root), start_for_bmc(context.root)));
  // Without NVIDIA's driver package, sysfs does not have the trust mode, but a table of the kernel shows it.
  if (!facts["roce_without_dscp"].number) facts.erase("roce_without_dscp");
  facts.merge(flow_control_facts(read_flow_control(context.root, context.host.ports, context.host.rails)));
  return facts;
}

/// Returns the facts of this rank's GPU from before any rank opened a GPU; nullptr if it is unknown which GPU is this
/// rank's.
const Facts* own_gpu(const InspectionContext& context) {
  if (!context.known) return nullptr;
  const auto& [uuid, pci] = std::tie(context.known->uuid, context.known->pci);
  for (const auto& gpu : context.host.gpus) {
    if ((uuid && gpu.at("uuid").text == uuid) || (pci && gpu.at("pci").text == pci)) return &gpu;
  }
  return nullptr;
}

/// Returns the seconds that the driver took to compile the first kernels of this program; 0 if the program has machine
/// code for the GPU. The driver keeps what it has compiled, so a second run takes less.
Fact jit_fact(const InspectionContext& context) {
  const auto seconds = context.device ? context.device->jit_seconds : std::nullopt;
  return number_fact(seconds, seconds.value_or(0) > 0 ? "the program has no machine code for this GPU, only PTX" : "");
}

/// Returns the current state of the GPU. The device must be open, because an idle GPU lowers the speed of its PCIe
/// link. Facts about other programs on the GPU come from the earlier reading.
Facts gpu_state(World&, const InspectionContext& context) {
  Facts facts;
  if (const auto* const before = own_gpu(context)) {
    const Nvml nvml;
    const auto gpu = nvml.find(before->at("uuid").text, before->at("pci").text);
    facts = gpu ? gpu_facts(*gpu, std::nullopt, context.root) : *before;
    for (const auto* name : {"processes", "memory_used_gb", "xids", "xids_condemning", "xids_of_programs"})
      facts[name] = before->at(name);
  }
  facts["cuda_opens"] = yes_or_no(context.device.has_value(), context.no_device);
  facts["multicast"] = yes_or_no(context.device ? context.device->multicast : std::nullopt);
  facts["jit_s"] = jit_fact(context);
  return facts;
}

Facts nvlink_state(World&, const InspectionContext& context) {
  const auto* const gpu = own_gpu(context);
  Facts facts;
  for (const auto* name : {"nvlinks", "nvlinks_up", "nvlink_gb_per_s", "nvlink_errors", "fabric", "fabric_trouble"}) {
    facts[name] = gpu != nullptr ? gpu->at(name) : number_fact(std::nullopt, "the GPU of this rank is unknown to NVML");
  }
  return facts;
}

Facts software(World& world, const InspectionContext& context) {
  Facts facts;
  for (const auto* name : {"cuda", "cublaslt", "nccl"}) {
    facts[name] = {};
    if (const auto& device = context.device; device && device->versions.contains(name)) {
      facts[name] = text_fact(device->versions.at(name));
    }
  }
  facts["faulty_versions"] = facts["nccl"].text ? faulty_versions_fact("nccl", *facts["nccl"].text) : Fact{};
  facts["cudnn"] = text_fact(context.backend == Backend::cuda ? cudnn_version() : std::nullopt);
  const auto mpi = world.library();
  facts["mpi"] = mpi.empty() ? Fact{} : text_fact(mpi);
  facts["nccl_settings"] = text_fact(nccl_settings(process_environment(), context.root));
  facts["gpu_mask"] = text_fact(gpu_mask(process_environment()).value_or(GpuMask{"none", {}}).text);
  return facts;
}

/// Returns 1 if the rank runs on the NUMA node of its GPU, or is not bound to cores; else 0.
Fact near_its_gpu(std::optional<double> nodes, std::optional<double> gpu, const Cpus& cpus) {
  if (nodes == 1) return number_fact(1);
  if (!gpu) return number_fact(std::nullopt, "the NUMA node of the GPU is unknown");
  if (!cpus.numa || *cpus.numa == static_cast<int>(*gpu)) return number_fact(1);
  return number_fact(
      0, "cores on NUMA node " + std::to_string(*cpus.numa) + ", GPU on " + std::to_string(static_cast<int>(*gpu)));
}

Facts binding(World& world, const InspectionContext& context) {
  auto& local = world.on_host();
  const auto& root = context.root;
  const auto cpus = own_cpus();
  std::vector<std::set<int>> cores;
  for (const auto& list : local.gather(cpus.list)) cores.push_back(cores_of(root, list));
  Facts facts;
  facts["ranks_per_core"] = ranks_per_core(cores, static_cast<std::size_t>(local.rank()));
  facts["ranks_apart"] = ranks_apart(local.gather(own_namespaces()), static_cast<std::size_t>(local.rank()));
  facts["cpus"] = text_fact(cpus.list.empty() ? std::nullopt : std::optional(cpus.list));
  facts["slurm_job"] = text_fact(slurm_job(process_environment()));
  const auto* const gpu = own_gpu(context);
  if (gpu == nullptr) return facts;
  facts["numa_near"] = near_its_gpu(context.host.host.at("numa_nodes").number, gpu->at("numa").number, cpus);
  return facts;
}

/// Returns the offset of this host's clock from that of rank 0. The offset is accurate to half an MPI round trip.
Facts clock_offset(World& world, const InspectionContext&) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const double ahead = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - world.clock();
  const double first = broadcast(world, ahead);
  if (!speaks_for_host(world)) return {};
  return {{"clock_offset_ms", number_fact(std::abs(ahead - first) * 1e3)}};
}

Facts network(World& world, const InspectionContext& context) {
  return reach_all_hosts(world, nccl_environment(process_environment(), context.root)("NCCL_SOCKET_IFNAME"));
}

/// Returns what Slurm reports about the nodes of this job. Only rank 0 asks, because the controller also serves other
/// jobs. The time limit is 10 s.
Facts slurm(World& world, const InspectionContext& context) {
  CommandOutput said;
  if (world.rank() == 0) {
    std::vector<std::string> command{"scontrol", "show", "node", "-o"};
    const auto own = process_environment()("SHAKEDOWN_SLURM_NODE");
    if (const auto nodes = own ? own : process_environment()("SLURM_JOB_NODELIST")) command.push_back(*nodes);
    said = output_of(command, std::chrono::seconds(10), std::chrono::seconds(1));
    if (said.timed_out) said.text = "scontrol did not answer for 10 s";
  }
  const auto answer = broadcast(world, said);
  if (!answer.started) throw Unsupported("scontrol is not installed here");
  if (!speaks_for_host(world)) return {};
  const auto& host = context.host.host;
  const auto gpus = host.find("gpus_pci");
  const auto own = process_environment()("SHAKEDOWN_SLURM_NODE");
  const auto node = own ? own : process_environment()("SLURMD_NODENAME");
  return slurm_facts(answer.text, node.value_or(host_name()), gpus == host.end() ? std::nullopt : gpus->second.number);
}

/// Runs NVIDIA's diagnostics on the first rank of each host. The other ranks wait meanwhile, so that their GPUs are
/// idle.
class Dcgm {
 public:
  Dcgm(int level, double timeout) : level_(level), limit_(dcgm_limit(level, timeout)) {}

  Facts of_host(World& world, const InspectionContext& context) {
    run(world);
    const auto* const own = own_gpu(context);
    const auto& gpus = context.host.gpus;
    std::set<std::size_t> of_ranks;
    // A rank sends the NVML index of its GPU plus one, or 0 if NVML does not know the GPU.
    for (const int number : gather(world.on_host(), own == nullptr ? 0 : static_cast<int>(own - gpus.data()) + 1)) {
      if (number > 0) of_ranks.insert(static_cast<std::size_t>(number) - 1);
    }
    return speaks_for_host(world) ? dcgm_host_facts(*report_, gpus, of_ranks) : Facts{};
  }

  Facts of_gpu(World& world, const InspectionContext& context) {
    run(world);
    const auto* const own = own_gpu(context);
    if (own != nullptr) {
      return dcgm_gpu_facts(*report_, context.host.gpus, static_cast<std::size_t>(own - context.host.gpus.data()));
    }
    return {{"dcgm_answers", yes_or_no(report_->trouble.empty(), report_->trouble)},
            {"dcgm_failed", number_fact(std::nullopt, "the GPU of this rank is unknown to NVML")},
            {"dcgm_warned", {}}};
  }

 private:
  void run(World& world) {
    if (report_) return;
    CommandOutput output;
    if (speaks_for_host(world)) {
      output = output_of({"dcgmi", "diag", "-r", std::to_string(level_), "-j"}, std::chrono::duration<double>(limit_));
    }
    output = broadcast(world.on_host(), output);
    const auto found = gather(world, output.started ? 1 : 0);
    if (std::count(found.begin(), found.end(), 1) == 0) throw Unsupported("dcgmi is not installed here");
    report_ = read_dcgm(output, level_);
  }

  int level_;
  double limit_;
  std::optional<DcgmReport> report_;
};

void add_dcgm(Session& session, int level) {
  if (session.backend() != Backend::cuda) {
    return session.add("preflight/of:dcgm", [](World&, const InspectionContext&) -> Facts {
      throw Unsupported("dcgmi diag tests GPUs, but no GPU is measured");
    });
  }
  const double timeout = session.options().timeout, patience = dcgm_limit(level, timeout);
  const auto dcgm = std::make_shared<Dcgm>(level, timeout);
  session.add(
      "preflight/of:dcgm", [dcgm](World& w, const InspectionContext& s) { return dcgm->of_host(w, s); }, patience);
  session.add(
      "preflight/of:dcgm_gpu", [dcgm](World& w, const InspectionContext& s) { return dcgm->of_gpu(w, s); }, patience);
}

}  // namespace

void register_preflight(Session& session) {
  if (session.backend() == Backend::virtual_gpu) {
    return session.add("preflight/of:gpu", [](World&, const InspectionContext&) -> Facts {
      throw Unsupported("a virtual GPU has no facts, and this host is not its host (--backend=virtual)");
    });
  }
  session.add("preflight/of:host", host_facts);
  if (session.backend() == Backend::cuda) {
    session.add("preflight/of:gpu", gpu_state);
    session.add("preflight/of:nvlink", nvlink_state);
  }
  session.add("preflight/of:software", software);
  session.add("preflight/of:binding", binding);
  session.add("preflight/of:clock", clock_offset);
  session.add("preflight/of:network", network);
  // Scripts such as a prolog and a health check are not job steps, but they also must get the GPUs that Slurm promises.
  if (process_environment()("SLURM_JOB_ID") || process_environment()("SHAKEDOWN_SLURM_NODE"))
    session.add("preflight/of:slurm", slurm);
  if (const int level = session.options().dcgm; level > 0) add_dcgm(session, level);
  session.add("preflight/of:folder",
              [folder = session.options().shared_folder](World& world, const InspectionContext&) {
                if (folder.empty()) throw Unsupported("no folder was named (--shared-folder=DIR)");
                return inspect_shared_folder(world, folder);
              });
}

}  // namespace shakedown
