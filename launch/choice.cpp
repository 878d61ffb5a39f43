#include "launch/choice.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "base/files.hpp"
#include "base/host_list.hpp"
#include "base/text.hpp"
#include "launch/hosts.hpp"
#include "launch/local_ranks.hpp"
#include "launch/mpirun_prefix.hpp"
#include "launch/pods.hpp"
#include "launch/schedulers.hpp"
#include "launch/slurm_components.hpp"
#include "launch/variables.hpp"

namespace shakedown {
namespace {

using Words = std::vector<std::string>;

const std::string own = "set SHAKEDOWN_LAUNCH to the launch prefix and SHAKEDOWN_EXPECT=ranks=N,hosts=M";

[[noreturn]] void refuse(const std::string& why, std::string_view launch = "") {
  throw CannotRun(why + " " + own + (launch.empty() ? "" : ", such as SHAKEDOWN_LAUNCH='" + std::string(launch) + "'"));
}

Words split(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Returns the settings of a launch. A setting of the user has priority.
std::vector<std::pair<std::string, std::string>> settings(const Environment& environment) {
  std::vector<std::pair<std::string, std::string>> all{
      // MPI then detects an unreachable host within 15 s instead of 8 minutes
      {"OMPI_MCA_oob_tcp_keepalive_time", "8"},
      {"OMPI_MCA_oob_tcp_keepalive_intvl", "2"},
      {"OMPI_MCA_oob_tcp_keepalive_probes", "3"},
      // MPI only starts and synchronizes the ranks. This transport is ready at once; others need 0.2 s to start.
      {"OMPI_MCA_pml", "ob1"},
      // Keeps mpirun from opening the GPUs, which takes hwloc 0.4 s through OpenCL. mpirun only needs to know the
      // cores.
      {"HWLOC_COMPONENTS", "-opencl,-cuda,-nvml,-rsmi,-levelzero,-gl"}};
  std::erase_if(all, [&](const auto& setting) { return environment(setting.first).has_value(); });
  return all;
}

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

bool is_absent(const LaunchSite& site, const std::string& host) { return is_one_of(host, site.absent); }

Words mpirun(const LaunchSite& site) {
  Words words{"mpirun", "--bind-to", "none"};
  if (site.root) words.emplace_back("--allow-run-as-root");
  return words;
}

/// Returns the host file that a variable of Open MPI 4 or 5 names.
std::optional<std::string> open_mpi_host_file(const Environment& environment) {
  for (const auto* variable : {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"}) {
    if (auto file = set_in(environment, variable)) return file;
  }
  return std::nullopt;
}

/// Returns the hosts of the host file that a variable names, or else of a scheduler's list. Empty if there is neither.
std::vector<HostWithSlots> hosts_of(const LaunchSite& site) {
  if (site.host_file) {
    return with_slots(hosts_of_file(*site.host_file, host_file_of(site.environment).value_or("host file")));
  }
  const auto scheduler = scheduler_hosts(site.environment);
  if (!scheduler || !scheduler->list) return {};
  return with_slots(hosts_of_file(*scheduler->list, scheduler->source));
}

/// Makes the launch use mpirun on the expected hosts. If `knows_hosts`, mpirun finds them itself: by the variable of
/// its host file, or as those of a Slurm job.
void use_mpirun(Launch& launch, const LaunchSite& site, const Words& shape, bool knows_hosts) {
  launch.prefix = launch.discovery = launch.alone = mpirun(site);
  if (!knows_hosts || !site.absent.empty()) {
    Words present;
    const auto listed = hosts_of(site);
    for (const auto& host : launch.hosts) {
      if (is_absent(site, host)) continue;
      // mpirun would start only one rank on a host that is listed without a number.
      const auto entry = std::find_if(listed.begin(), listed.end(), [&](const auto& e) { return e.name == host; });
      present.push_back(entry == listed.end() ? host : host + ":" + std::to_string(entry->slots));
    }
    if (present.empty()) throw CannotRun("no host of " + joined(launch.hosts) + " is there");
    append(launch.prefix, {"--host", joined(present, ",")});
    append(launch.discovery, {"--host", joined(present, ",")});
  }
  append(launch.prefix, shape);
  append(launch.discovery, {"--map-by", "ppr:1:node", "--oversubscribe"});
  append(launch.alone, {"--map-by", "ppr:1:node", "--oversubscribe", "--host"});
  // mpirun passes only its own variables to the ranks; others must be named.
  for (const auto* variable :
       {"SHAKEDOWN_FAULT", "LD_LIBRARY_PATH", "SHAKEDOWN_CUDA_LIBRARIES", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (site.environment(variable)) append(launch.prefix, {"-x", variable});
  }
}

/// Returns the present hosts with their slots, in the form that mpirun reads.
Words present_entries(const std::vector<HostWithSlots>& listed, const LaunchSite& site) {
  Words entries;
  for (const auto& host : listed) {
    if (!is_absent(site, host.name)) entries.push_back(host.name + ":" + std::to_string(host.slots));
  }
  return entries;
}

/// Returns the launch with a user's prefix. If the prefix is mpirun, parses it, so that hosts that do not start can be
/// left out.
Launch of_prefix(const LaunchSite& site, Launch launch, const Words& prefix) {
  launch.prefix = launch.discovery = prefix;
  launch.host_count = 0;
  const auto of_mpirun = mpirun_prefix(prefix);
  if (!of_mpirun) return launch;
  const auto listed =
      of_mpirun->hosts ? with_slots(listed_hosts(*of_mpirun->hosts, "SHAKEDOWN_LAUNCH: ")) : hosts_of(site);
  for (const auto& host : listed) launch.named.push_back(host.name);
  launch.alone = {prefix.front()};
  launch.wrapper = of_mpirun->wrapper;
  append(launch.alone, of_mpirun->others);
  append(launch.alone, {"--map-by", "ppr:1:node", "--oversubscribe", "--host"});
  const auto present = present_entries(listed, site);
  if (present.size() == listed.size() || present.empty()) return launch;
  launch.prefix = {prefix.front(), "--host", joined(present, ",")};
  append(launch.prefix, of_mpirun->others);
  append(launch.prefix, of_mpirun->shape);
  const auto hosts = static_cast<int>(listed.size()), left = static_cast<int>(present.size());
  if (const int ranks = of_mpirun->ranks ? number_of(*of_mpirun->ranks, "SHAKEDOWN_LAUNCH: -np") : 0;
      ranks > 0 && ranks % hosts == 0) {
    append(launch.prefix, {"-np", std::to_string(ranks / hosts * left)});
  }
  append(launch.prefix, of_mpirun->wrapper);
  launch.discovery = launch.prefix;
  return launch;
}

/// True if an MPI launcher started this process.
bool is_of_mpi(const Environment& environment) {
  constexpr std::array launchers{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  return std::any_of(launchers.begin(), launchers.end(),
                     [&](const char* name) { return environment(name).has_value(); });
}

/// Returns the launch of one rank if torchrun, a pod's job or a script started several ranks, each with its own
/// shakedown. The ranks connect over TCP (fixtures/ranks/rendezvous.hpp).
std::optional<Launch> of_ranks(const Environment& environment, Launch launch) {
  for (const auto* variable : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (!set_in(environment, variable)) return std::nullopt;
  }
  // A pod has RANK too. In an elastic job nobody but torchrun knows how many pods there are.
  const bool is_pod = !set_in(environment, "LOCAL_RANK") &&
                      (set_in(environment, "PET_NNODES") || set_in(environment, "PET_NPROC_PER_NODE"));
  if (is_of_mpi(environment) || is_pod) return std::nullopt;
  launch.rank = number_in(environment, "RANK", 0);
  launch.ranks = number_in(environment, "WORLD_SIZE", 1);
  if (*launch.ranks == 0) throw CannotRun("WORLD_SIZE=0 is not a number of ranks: correct or unset it");
  if (*launch.ranks == 1) return std::nullopt;
  if (*launch.rank >= *launch.ranks) {
    throw CannotRun("RANK=" + std::to_string(*launch.rank) +
                    " is not below WORLD_SIZE=" + std::to_string(*launch.ranks) + ": correct or unset them");
  }
  launch.host_count = 0;
  launch.variables.clear();  // these variables are only for mpirun
  launch.note =
      "rank " + std::to_string(*launch.rank) + " of " + std::to_string(*launch.ranks) +
      " by RANK and WORLD_SIZE; the launcher that set them must also start the other ranks; they connect to " +
      *set_in(environment, "MASTER_ADDR") + ":" + *set_in(environment, "MASTER_PORT") +
      "; unset them to measure this machine alone";
  return launch;
}

/// Returns a number of ranks of one host. Errors: InputError if no host can run so many, or if it is 0.
int checked_ranks(int ranks, const std::string& variable) {
  constexpr int max_ranks = 1024;  // mpirun would start more for minutes, and then run out of processes or memory
  const auto given = variable + "=" + std::to_string(ranks);
  if (ranks == 0) throw InputError(given + " measures nothing: unset it, or give a number of ranks");
  if (ranks <= max_ranks) return ranks;
  throw InputError(given + " is more than one host can run: give at most " + std::to_string(max_ranks));
}

/// Returns the launch of the ranks of this pod, if other pods start the other ranks of the job.
std::optional<Launch> of_pods(const LaunchSite& site, Launch launch) {
  const auto pod = is_of_mpi(site.environment) ? std::nullopt : pod_of(site.environment);
  if (!pod || pod->count == 1) return std::nullopt;
  const int each =
      pod->processes > 0
          ? checked_ranks(pod->processes, "PET_NPROC_PER_NODE")
          : checked_ranks(number_in(site.environment, "SHAKEDOWN_RANKS", std::max(site.gpus, 1)), "SHAKEDOWN_RANKS");
  if (pod->count > std::numeric_limits<int>::max() / each) {
    throw InputError("PET_NNODES or WORLD_SIZE=" + std::to_string(pod->count) + " is not a number of pods: correct it");
  }
  const int first = pod->number * each;
  launch.rank = first;
  launch.ranks = pod->count * each;
  launch.host_count = 0;
  launch.prefix = local_ranks(site.program, first, each);
  launch.variables = {
      {"WORLD_SIZE", std::to_string(*launch.ranks)}, {"MASTER_ADDR", pod->address}, {"MASTER_PORT", pod->port}};
  launch.note = "pod " + std::to_string(pod->number) + " of " + std::to_string(pod->count) + " starts ranks " +
                std::to_string(first) + " to " + std::to_string(first + each - 1) + " of " +
                std::to_string(*launch.ranks) + "; the other pods must start the other ranks; they connect to " +
                pod->address + ":" + pod->port;
  return launch;
}

/// Returns the launch of many ranks on this host without MPI; nullopt if mpirun is quick enough.
std::optional<Launch> of_many_ranks(const LaunchSite& site, Launch launch, int ranks) {
  // The time of MPI_Init grows with the square of the number of ranks if they share cores: on 2 cores 64 ranks of Open
  // MPI 4.1 start in 2 s, 128 in 7 s, 256 in 29 s, 512 not in 120 s. Over TCP these take 0.8, 1.4, 3 and 8 s.
  constexpr int max_ranks_of_mpirun = 128;
  if (ranks <= max_ranks_of_mpirun || is_of_mpi(site.environment)) return std::nullopt;
  launch.prefix = local_ranks(site.program, 0, ranks);
  launch.variables = {{"WORLD_SIZE", std::to_string(ranks)}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", ""}};
  launch.note = std::to_string(ranks) + " ranks of this host start without mpirun, which starts more than " +
                std::to_string(max_ranks_of_mpirun) + " slowly; they connect over TCP";
  return launch;
}

/// Throws if the variables of an unknown scheduler promise several hosts, because hosts of the job would not be
/// measured.
void refuse_promised_hosts(const Environment& environment) {
  const auto promised = promised_hosts(environment);
  if (!promised) return;
  refuse(std::string(promised->scheduler) + ": " + promised->said +
             " promises several hosts, but only this host would be measured:",
         promised->launch);
}

/// Throws if an MPI launcher started several instances, because each would measure its own machine and print PASS.
void refuse_one_of_several(const Environment& environment) {
  for (const auto* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const auto size = set_in(environment, variable);
    if (!size || *size == "1") continue;
    throw CannotRun(std::string(variable) + "=" + *size +
                    ": an MPI launcher has started this program several times; start it once, and it starts the ranks "
                    "itself, or name the launcher in SHAKEDOWN_LAUNCH");
  }
}

/// Throws if this process is one rank of several but has no common address, because it would measure only its own
/// machine.
void refuse_a_rank_without_meeting_place(const Environment& environment) {
  const auto rank = set_in(environment, "RANK"), size = set_in(environment, "WORLD_SIZE");
  if (!rank || !size || *size == "1" || is_of_mpi(environment)) return;
  Words missing;
  for (const auto* variable : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (!set_in(environment, variable)) missing.emplace_back(variable);
  }
  if (missing.empty()) return;
  throw CannotRun("RANK=" + *rank + " and WORLD_SIZE=" + *size + " without " + joined(missing, " and ") +
                  ": ranks cannot find each other; set " + joined(missing, " and ") +
                  ", or unset RANK and WORLD_SIZE to measure this machine alone");
}

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
    refuse("a step of a Slurm job of " + plural(hosts, "node") + ", " + plural(tasks, "task") +
           " in the step: start it once, from the job's script, or");
  }
  if (tasks > 1) {
    refuse(
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

/// Hides variables of torchrun from the ranks, which would read them before those of srun.
void clear_variables_of_torchrun(const Environment& environment, Launch& launch) {
  for (const auto* name : {"RANK", "WORLD_SIZE"}) {
    if (set_in(environment, name)) launch.variables.emplace_back(name, "");
  }
}

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
    refuse("SHAKEDOWN_RANKS is for one host, this Slurm job has " + std::to_string(hosts) + ": unset it, or");
  }
  launch.host_count = hosts;
  const int present = hosts - static_cast<int>(std::count_if(launch.hosts.begin(), launch.hosts.end(),
                                                             [&](const auto& host) { return is_absent(site, host); }));
  // True if the tasks of the job do not give the number of ranks: the user gives it, or there are fewer tasks than
  // GPUs. If there are GPUs, tasks are compared with the GPUs of all hosts, which is stricter.
  const bool too_few = ranks_given || tasks < hosts * std::max(site.gpus, 1);
  if (!too_few && site.gpus == 0) launch.ranks = tasks;
  const auto per_host = std::to_string(ranks);
  if (site.srun_plugins.find("none") == std::string::npos) {
    if (!site.mpirun) {
      refuse("a Slurm job of " + plural(hosts, "node") + " without srun and without mpirun: install one, or");
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
  clear_variables_of_torchrun(environment, launch);
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

/// Returns the launch on all components of a heterogeneous Slurm job; nullopt if this is none.
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
    refuse("SHAKEDOWN_RANKS is for one host, not for a heterogeneous Slurm job: unset it, or");
  }
  clear_variables_of_torchrun(environment, launch);
  return launch;
}

/// Makes mpirun start its daemons with a scheduler's agent. A setting of the user has priority. The names are those of
/// Open MPI 4 and 5.
void use_agent(Launch& launch, const LaunchSite& site, const std::string& agent) {
  struct Setting {
    const char *of_4, *of_5;
    std::string value;
  };
  const std::array settings{
      Setting{"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", agent},
      // Only this host is certain to have the agent: blaunch is for the first host of a job, kubectl for the launcher.
      Setting{"OMPI_MCA_plm_rsh_no_tree_spawn", "PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
      // A scheduler may end what a command left behind, so the daemons stay attached to the agents, which all run at
      // once.
      Setting{"OMPI_MCA_orte_leave_session_attached", "PRTE_MCA_prte_leave_session_attached", "1"},
      Setting{"OMPI_MCA_plm_rsh_num_concurrent", "PRTE_MCA_plm_ssh_num_concurrent", std::to_string(launch.host_count)},
      // An Open MPI that was built with LSF would also use the slot of the launch node.
      Setting{"OMPI_MCA_ras", "PRTE_MCA_ras", "^lsf"}, Setting{"OMPI_MCA_plm", "PRTE_MCA_plm", "^lsf"}};
  for (const auto& [of_4, of_5, value] : settings) {
    for (const auto* name : {of_4, of_5}) {
      if (!site.environment(name)) launch.variables.emplace_back(name, value);
    }
  }
}

/// True if the first host is the launch node of the job: this host, without GPUs, with one slot, while all others have
/// more.
bool begins_with_launch_node(const std::vector<HostWithSlots>& hosts, const LaunchSite& site) {
  if (hosts.size() < 2 || hosts.front().slots != 1 || site.has_gpus || site.host.empty()) return false;
  return same_host(hosts.front().name, site.host) &&
         std::all_of(hosts.begin() + 1, hosts.end(), [](const auto& host) { return host.slots > 1; });
}

/// Throws if mpirun cannot be used for the hosts of this source.
void require_mpirun(const LaunchSite& site, const std::string& source, int hosts) {
  if (set_in(site.environment, "SHAKEDOWN_RANKS") && hosts > 1) {
    refuse("SHAKEDOWN_RANKS is for one host, " + source + " has " + std::to_string(hosts) + ": unset it, or");
  }
  if (!site.mpirun) refuse(source + " lists hosts, but mpirun is missing: install Open MPI, or");
  if (site.other_mpi) {
    refuse(source + " lists hosts, but mpirun is that of another MPI: make Open MPI's the first in PATH, or");
  }
}

/// Returns the launch on the hosts that a scheduler lists; nullopt if this host is the only one.
std::optional<Launch> of_scheduler(const LaunchSite& site, Launch launch) {
  const auto scheduler = scheduler_hosts(site.environment);
  if (!scheduler) return std::nullopt;
  const auto& source = scheduler->source;
  if (!scheduler->list && !site.host_file) refuse(source + ", which the scheduler names, cannot be read:");
  auto hosts = hosts_of(site);
  if (hosts.empty()) refuse(source + ", which is the scheduler's, names no hosts: correct it, or");
  if (scheduler->agent && begins_with_launch_node(hosts, site)) {
    launch.note = hosts.front().name + " has one slot and no GPU: it is the launch node, and is not measured";
    hosts.erase(hosts.begin());
  }
  for (const auto& host : hosts) launch.hosts.push_back(host.name);
  launch.host_count = static_cast<int>(hosts.size());
  const bool is_here = site.host.empty() || same_host(hosts.front().name, site.host);
  if (hosts.size() == 1 && (is_here || !scheduler->agent)) return std::nullopt;
  if (!scheduler->agent) {
    refuse(source + " lists several hosts, but only this host would be measured:", scheduler->launch);
  }
  require_mpirun(site, source, launch.host_count);
  if (!site.agent) {
    refuse(source + " lists several hosts, but the program that starts ranks on them is missing: add " +
               split(*scheduler->agent).front() + " to PATH, or",
           scheduler->launch);
  }
  use_agent(launch, site, *scheduler->agent);
  // The slots of a scheduler are often CPU cores, so they give the number of ranks only if there are no GPUs.
  const auto per_host = std::to_string(number_in(site.environment, "SHAKEDOWN_RANKS", site.gpus));
  use_mpirun(launch, site,
             per_host == "0" ? Words{} : Words{"--map-by", "ppr:" + per_host + ":node", "--oversubscribe"}, false);
  return launch;
}

/// Returns the launch on the hosts of the host file that a variable of Open MPI names.
std::optional<Launch> of_open_mpi(const LaunchSite& site, Launch launch) {
  const auto file = open_mpi_host_file(site.environment);
  if (!file) return std::nullopt;
  for (const auto& host : hosts_of(site)) launch.hosts.push_back(host.name);
  launch.host_count = static_cast<int>(launch.hosts.size());
  if (launch.host_count == 0) refuse(*file + " names no hosts: correct the variable of Open MPI, or");
  require_mpirun(site, *file, launch.host_count);
  const auto ranks = set_in(site.environment, "SHAKEDOWN_RANKS");
  use_mpirun(launch, site, ranks ? Words{"-np", *ranks} : Words{}, true);
  return launch;
}

}  // namespace

std::string Launch::expected() const {
  Words words;
  if (host_count > 0 && !discovery.empty()) words.push_back("hosts=" + std::to_string(host_count));
  if (ranks) words.push_back("ranks=" + std::to_string(*ranks));
  return joined(words, ",");
}

std::optional<std::string> host_file_of(const Environment& environment) {
  if (const auto prefix = set_in(environment, "SHAKEDOWN_LAUNCH")) {
    const auto of_mpirun = mpirun_prefix(split(*prefix));
    return of_mpirun ? of_mpirun->host_file : std::nullopt;
  }
  if (auto file = open_mpi_host_file(environment)) return file;
  const auto scheduler = scheduler_hosts(environment);
  return scheduler && !scheduler->list ? std::optional(scheduler->source) : std::nullopt;
}

std::optional<int> rank_of(const Environment& environment) {
  if (set_in(environment, "SHAKEDOWN_LAUNCH")) return std::nullopt;
  LaunchSite site;
  site.environment = environment;
  const auto launch = of_pods(site, {});
  return launch ? launch->rank : of_ranks(environment, {}).value_or(Launch()).rank;
}

Launch choose_launch(const LaunchSite& site) {
  const auto& environment = site.environment;
  Launch launch;
  launch.variables = settings(environment);
  if (const auto prefix = set_in(environment, "SHAKEDOWN_LAUNCH")) {
    const auto words = split(*prefix);
    if (words.empty()) throw InputError("SHAKEDOWN_LAUNCH is blank: name a launcher, or unset it");
    return of_prefix(site, launch, words);
  }
  if (auto pods = of_pods(site, launch)) return *pods;
  if (auto one = of_ranks(environment, launch)) return *one;
  const int ranks = number_in(environment, "SHAKEDOWN_RANKS", site.gpus > 0 ? site.gpus : 2);
  if (ranks == 0) throw InputError("SHAKEDOWN_RANKS=0 measures nothing: unset it, or give a number of ranks");
  if (auto slurm = of_heterogeneous_slurm(site, launch)) return *slurm;
  if (auto slurm = of_slurm(site, launch, ranks)) return *slurm;
  if (auto listed = of_open_mpi(site, launch)) return *listed;
  if (auto listed = of_scheduler(site, launch)) return *listed;
  checked_ranks(ranks, "SHAKEDOWN_RANKS");
  refuse_promised_hosts(environment);
  refuse_one_of_several(environment);
  refuse_a_rank_without_meeting_place(environment);
  if (auto many = of_many_ranks(site, launch, ranks)) return *many;
  if (!site.mpirun) {
    launch.note = "mpirun is missing, running one process" +
                  (site.gpus > 1 ? " though there are " + plural(site.gpus, "GPU") + ": install Open MPI" : "");
    return launch;
  }
  launch.prefix = mpirun(site);
  // Open MPI reads one task of a Slurm step as one slot, which is too few. Ignores the step, so that -np gives the
  // number of ranks. The names are those of Open MPI 4 and 5.
  for (const auto* setting : {"OMPI_MCA_ras", "PRTE_MCA_ras"}) {
    if (set_in(environment, "SLURM_JOB_ID") && !environment(setting)) launch.variables.emplace_back(setting, "^slurm");
  }
  // Restricts Open MPI to the loopback interface, so that other hosts cannot reach its addresses.
  for (const std::string layer : {"oob", "btl"}) {
    const auto setting = "OMPI_MCA_" + layer + "_tcp_if_";
    const bool is_set = environment(setting + "include") || environment(setting + "exclude");
    if (!is_set) launch.variables.emplace_back(setting + "include", "lo");
  }
  // mpirun requires a way to start remote processes even if there are no remote hosts.
  if (!site.ssh) launch.variables.emplace_back("OMPI_MCA_plm", "isolated");
  append(launch.prefix, {"--oversubscribe", "-np", std::to_string(ranks)});  // a task may have only one core
  return launch;
}

}  // namespace shakedown
