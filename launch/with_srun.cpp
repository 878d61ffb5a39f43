#include "launch/with_srun.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/host_list.hpp"
#include "base/text.hpp"
#include "launch/hosts.hpp"
#include "launch/schedulers.hpp"
#include "launch/slurm_components.hpp"
#include "launch/variables.hpp"
#include "launch/with_mpirun.hpp"
#include "launch/words.hpp"

namespace shakedown {
namespace {

/// True if srun started this process. Step numbers alone do not tell: the batch script and salloc's shell have the
/// highest ones.
bool is_in_step(const Environment& environment) {
  constexpr unsigned first_special = 4294967290U;
  const auto step = set_in(environment, "SLURM_STEP_ID");
  return step && std::strtoul(step->c_str(), nullptr, 10) < first_special;
}

/// Throws for a step with several tasks, which would start several instances, and for a step on one node of a job with
/// several nodes, which would not measure the other nodes.
void refuse_part_of_slurm_job(const Environment& environment, int hosts) {
  if (!is_in_step(environment)) return;
  const int tasks = number_in(environment, "SLURM_STEP_NUM_TASKS", number_in(environment, "SLURM_NTASKS", 1));
  if (hosts > 1) {
    refuse_launch("a step of a Slurm job of " + plural(hosts, "node") + ", " + plural(tasks, "task") +
                  " in the step: start it once, from the job's script, or");
  }
  if (tasks > 1) {
    refuse_launch(
        "srun has started this program " + std::to_string(tasks) +
        " times (SLURM_STEP_NUM_TASKS): start it as one task (srun -N1 -n1 --gpus-per-node=N), and it starts the ranks "
        "itself, or");
  }
}

/// True if this process is not on the only node of its job. An example is the shell of salloc on a login node.
bool is_outside_of_node(const LaunchSite& site, const Launch& launch) {
  if (set_in(site.environment, "SLURMD_NODENAME") || site.host.empty()) return false;
  return launch.hosts.size() == 1 && !same_host(launch.hosts.front(), site.host);
}

/// Hides variables of torchrun from the ranks, which would read them before those of srun. Lets a step use the cores and
/// the memory of an earlier one, because a node that does not answer keeps its step from ending.
void set_variables_of_srun(const Environment& environment, Launch& launch) {
  if (!set_in(environment, "SLURM_OVERLAP") && !set_in(environment, "SLURM_EXCLUSIVE")) {
    launch.variables.emplace_back("SLURM_OVERLAP", "1");
  }
  for (const auto* name : {"RANK", "WORLD_SIZE"}) {
    if (set_in(environment, name)) launch.variables.emplace_back(name, "");
  }
}

}  // namespace

std::optional<Launch> of_slurm(const LaunchSite& site, Launch launch, int ranks) {
  const auto& environment = site.environment;
  if (!set_in(environment, "SLURM_JOB_ID")) return std::nullopt;
  const int hosts = number_in(environment, "SLURM_JOB_NUM_NODES", number_in(environment, "SLURM_NNODES", 1));
  const int tasks = number_in(environment, "SLURM_NTASKS", 0);
  const bool ranks_given = set_in(environment, "SHAKEDOWN_RANKS").has_value();
  refuse_part_of_slurm_job(environment, hosts);
  const auto nodes = set_in(environment, "SLURM_JOB_NODELIST");
  if (nodes) launch.hosts = expand_hosts(*nodes, "SLURM_JOB_NODELIST: ");
  if (hosts <= 1 && !is_outside_of_node(site, launch) && (ranks_given || tasks <= ranks)) return std::nullopt;
  if (ranks_given && hosts > 1) {
    refuse_launch("SHAKEDOWN_RANKS is for one host, this Slurm job has " + std::to_string(hosts) + ": unset it, or");
  }
  launch.host_count = hosts;
  const int present =
      hosts - static_cast<int>(std::count_if(launch.hosts.begin(), launch.hosts.end(),
                                             [&](const auto& host) { return is_one_of(host, site.absent); }));
  // True if the tasks of the job do not give the number of ranks: the user gives it, or there are fewer tasks than
  // GPUs. If there are GPUs, tasks are compared with the GPUs of all hosts, which is stricter.
  const bool too_few = ranks_given || tasks < hosts * std::max(site.gpus, 1);
  if (!too_few && site.gpus == 0) launch.ranks = tasks;
  const auto per_host = std::to_string(ranks);
  if (site.srun_plugins.find("none") == std::string::npos) {
    if (!site.mpirun) {
      refuse_launch("a Slurm job of " + plural(hosts, "node") + " without srun and without mpirun: install one, or");
    }
    use_mpirun(launch, site, too_few ? Words{"--map-by", "ppr:" + per_host + ":node", "--oversubscribe"} : Words{},
               true);
    return launch;
  }
  Words left_out;
  if (present < hosts) left_out = {"--exclude=" + joined(site.absent, ",")};
  // Ranks connect over TCP (fixtures/ranks/rendezvous.hpp) instead of MPI, because Open MPI 4.1 under srun's pmix
  // sometimes loses a rank in MPI_Init (open-mpi/ompi#12495). If a rank crashes, srun ends the others at once.
  launch.prefix = {"srun", "--mpi=none", "--kill-on-bad-exit=1", "--cpu-bind=none"};
  set_variables_of_srun(environment, launch);
  append(launch.prefix, left_out);
  if (too_few || present < hosts) {
    const int each = too_few ? ranks : tasks / hosts;
    append(launch.prefix, {"--overcommit", "-N", std::to_string(present), "-n", std::to_string(present * each),
                           "--ntasks-per-node=" + std::to_string(each)});
  }
  launch.discovery = {"srun", "--mpi=none", "--kill-on-bad-exit=0", "--cpu-bind=none", "--overcommit"};
  append(launch.discovery, left_out);
  launch.alone = {"srun", "--mpi=none", "--cpu-bind=none", "--overcommit", "-N", "1", "-n", "1", "-w"};
  append(launch.discovery, {"-N", std::to_string(present), "-n", std::to_string(present), "--ntasks-per-node=1"});
  return launch;
}

std::optional<Launch> of_heterogeneous_slurm(const LaunchSite& site, Launch launch) {
  const auto& environment = site.environment;
  if (!set_in(environment, "SLURM_HET_SIZE")) return std::nullopt;
  const auto components = slurm_components(environment);
  // Without srun, mpirun would start ranks on the first component only.
  if (components.empty() || site.srun_plugins.find("none") == std::string::npos) refuse_promised_hosts(environment);
  if (components.size() < 2) return std::nullopt;
  launch = of_components(site, std::move(launch), components);
  refuse_part_of_slurm_job(environment, launch.host_count);
  if (set_in(environment, "SHAKEDOWN_RANKS")) {
    refuse_launch("SHAKEDOWN_RANKS is for one host, not for a heterogeneous Slurm job: unset it, or");
  }
  set_variables_of_srun(environment, launch);
  return launch;
}

void refuse_promised_hosts(const Environment& environment) {
  const auto promised = promised_hosts(environment);
  if (!promised) return;
  refuse_launch(std::string(promised->scheduler) + ": " + promised->said +
                    " promises several hosts, but only this host would be measured:",
                promised->launch);
}

}  // namespace shakedown
