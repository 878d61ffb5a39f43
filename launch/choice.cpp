#include "launch/choice.hpp"

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "base/host_list.hpp"
#include "base/text.hpp"
#include "launch/hosts.hpp"
#include "launch/mpirun_prefix.hpp"
#include "launch/schedulers.hpp"
#include "launch/variables.hpp"
#include "launch/with_mpirun.hpp"
#include "launch/with_srun.hpp"
#include "launch/with_tcp.hpp"
#include "launch/words.hpp"

namespace shakedown {
namespace {

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

/// Returns the present hosts with their slots, in the form that mpirun reads.
Words present_entries(const std::vector<HostWithSlots>& listed, const LaunchSite& site) {
  Words entries;
  for (const auto& host : listed) {
    if (!is_one_of(host.name, site.absent)) entries.push_back(host.name + ":" + std::to_string(host.slots));
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

/// Returns the launch on the hosts that a scheduler lists; nullopt if this host is the only one.
std::optional<Launch> of_scheduler(const LaunchSite& site, Launch launch) {
  const auto scheduler = scheduler_hosts(site.environment);
  if (!scheduler) return std::nullopt;
  const auto& source = scheduler->source;
  if (!scheduler->list && !site.host_file) refuse_launch(source + ", which the scheduler names, cannot be read:");
  auto hosts = hosts_of(site);
  if (hosts.empty()) refuse_launch(source + ", which is the scheduler's, names no hosts: correct it, or");
  if (scheduler->agent && begins_with_launch_node(hosts, site)) {
    launch.note = hosts.front().name + " has one slot and no GPU: it is the launch node, and is not measured";
    hosts.erase(hosts.begin());
  }
  for (const auto& host : hosts) launch.hosts.push_back(host.name);
  launch.host_count = static_cast<int>(hosts.size());
  const bool is_here = site.host.empty() || same_host(hosts.front().name, site.host);
  if (hosts.size() == 1 && (is_here || !scheduler->agent)) return std::nullopt;
  if (!scheduler->agent) {
    refuse_launch(source + " lists several hosts, but only this host would be measured:", scheduler->launch);
  }
  require_mpirun(site, source, launch.host_count);
  if (!site.agent) {
    refuse_launch(source + " lists several hosts, but the program that starts ranks on them is missing: add " +
                      words_in(*scheduler->agent).front() + " to PATH, or",
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
  if (launch.host_count == 0) refuse_launch(*file + " names no hosts: correct the variable of Open MPI, or");
  require_mpirun(site, *file, launch.host_count);
  const auto ranks = set_in(site.environment, "SHAKEDOWN_RANKS");
  use_mpirun(launch, site, ranks ? Words{"-np", *ranks} : Words{}, true);
  return launch;
}

}  // namespace

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
    const auto words = words_in(*prefix);
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
  if (ranks == 1) {                                             // without a launcher, which would take half a second
    launch.variables.emplace_back("OMPI_COMM_WORLD_RANK", "");  // a scheduler's variables make it no rank of MPI
    return launch;
  }
  if (!site.mpirun) {
    launch.note = "mpirun is missing, running one process" +
                  (site.gpus > 0 ? " though there are " + plural(site.gpus, "GPU") + ": install Open MPI" : "");
    return launch;
  }
  launch.prefix = mpirun_words(site);
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
