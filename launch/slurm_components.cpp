#include "launch/slurm_components.hpp"

#include <algorithm>
#include <array>

#include "base/host_list.hpp"
#include "base/text.hpp"
#include "launch/hosts.hpp"
#include "launch/variables.hpp"
#include "launch/words.hpp"

namespace shakedown {
namespace {

std::string of_group(const std::string& variable, int group) {
  return variable + "_HET_GROUP_" + std::to_string(group);
}

/// Returns the largest number of GPUs of a host of the component; 0 if none of them has answered.
int gpus_of(const LaunchSite& site, const SlurmComponent& component) {
  int most = 0;
  for (const auto& [host, gpus] : site.gpus_by_host) {
    if (is_one_of(host, component.hosts)) most = std::max(most, gpus);
  }
  return most;
}

/// Removes components without GPUs if other components have some.
void leave_out_cpu_nodes(const LaunchSite& site, Launch& launch, std::vector<SlurmComponent>& components) {
  const auto asks = [](const SlurmComponent& component) { return component.has_gpus; };
  const bool is_known = std::any_of(components.begin(), components.end(), asks);
  const bool any_gpu = std::any_of(components.begin(), components.end(),
                                   [&](const auto& component) { return gpus_of(site, component) > 0; });
  Words cpu_nodes, others;
  for (const auto& component : components) {
    const bool without =
        is_known ? !asks(component)
                 : any_gpu && gpus_of(site, component) == 0 && !hosts_without(component.hosts, site.absent).empty();
    if (without) {
      cpu_nodes.insert(cpu_nodes.end(), component.hosts.begin(), component.hosts.end());
    } else {
      others.push_back(std::to_string(component.group));
    }
  }
  if (cpu_nodes.empty()) return;
  if (!is_known) {
    throw CannotRun(host_ranges(cpu_nodes) +
                    ": no GPU, but other components of this Slurm job have some; measure the components with GPUs by "
                    "SHAKEDOWN_LAUNCH='srun --mpi=none --het-group=" +
                    joined(others, ",") + " --ntasks-per-node=8' and SHAKEDOWN_EXPECT=ranks=N,hosts=M, or ask for " +
                    "GPUs by --gpus-per-node, which tells the components apart");
  }
  launch.note = host_ranges(cpu_nodes) + ": the job asked for no GPU there, so these nodes are not measured";
  std::erase_if(components, [&](const auto& component) { return !asks(component); });
}

}  // namespace

std::vector<SlurmComponent> slurm_components(const Environment& environment) {
  std::vector<SlurmComponent> components;
  for (int group = 0; group < number_in(environment, "SLURM_HET_SIZE", 0); ++group) {
    const auto variable = of_group("SLURM_JOB_NODELIST", group);
    const auto nodes = set_in(environment, variable);
    if (!nodes) return {};
    SlurmComponent component{group, expand_hosts(*nodes, variable + ": ")};
    component.tasks = number_in(environment, of_group("SLURM_NTASKS", group), static_cast<int>(component.hosts.size()));
    constexpr std::array gpu_options{"SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_SOCKET",
                                     "SLURM_GPUS_PER_TASK"};
    component.has_gpus = std::any_of(gpu_options.begin(), gpu_options.end(), [&](const char* option) {
      return set_in(environment, of_group(option, group)).has_value();
    });
    components.push_back(std::move(component));
  }
  return components;
}

Launch of_components(const LaunchSite& site, Launch launch, std::vector<SlurmComponent> components) {
  leave_out_cpu_nodes(site, launch, components);
  launch.prefix = launch.discovery = {"srun"};
  int ranks = 0;
  bool any_gpu = false;
  for (const auto& component : components) {
    const int hosts = static_cast<int>(component.hosts.size()), gpus = gpus_of(site, component);
    const int wanted = std::max(component.tasks, hosts * std::max(gpus, 1));
    launch.hosts.insert(launch.hosts.end(), component.hosts.begin(), component.hosts.end());
    ranks += wanted;
    any_gpu = any_gpu || gpus > 0;
    const auto present = hosts_without(component.hosts, site.absent);
    if (present.empty()) continue;
    const int here = static_cast<int>(present.size());
    const auto add = [&](Words& words, const std::string& on_bad_exit, int tasks, bool is_even) {
      if (words.size() > 1) words.emplace_back(":");
      words.insert(words.end(), {"--mpi=none", "--kill-on-bad-exit=" + on_bad_exit, "--cpu-bind=none", "--overcommit",
                                 "--het-group=" + std::to_string(component.group), "--nodelist=" + joined(present, ","),
                                 "-N", std::to_string(here), "-n", std::to_string(tasks)});
      if (is_even) words.push_back("--ntasks-per-node=" + std::to_string(tasks / here));
    };
    add(launch.prefix, "1", wanted * here / hosts, wanted % hosts == 0);
    add(launch.discovery, "0", here, true);
  }
  launch.host_count = static_cast<int>(launch.hosts.size());
  if (!any_gpu) launch.ranks = ranks;
  return launch;
}

}  // namespace shakedown
