#include "launch/with_mpirun.hpp"

#include <algorithm>

#include "base/host_list.hpp"
#include "base/text.hpp"
#include "launch/mpirun_prefix.hpp"
#include "launch/schedulers.hpp"
#include "launch/variables.hpp"
#include "launch/words.hpp"

namespace shakedown {

void refuse_launch(const std::string& why, std::string_view launch) {
  throw CannotRun(why + " set SHAKEDOWN_LAUNCH to the launch prefix and SHAKEDOWN_EXPECT=ranks=N,hosts=M" +
                  (launch.empty() ? "" : ", such as SHAKEDOWN_LAUNCH='" + std::string(launch) + "'"));
}

Words mpirun_words(const LaunchSite& site) {
  Words words{"mpirun", "--bind-to", "none"};
  if (site.root) words.emplace_back("--allow-run-as-root");
  return words;
}

std::optional<std::string> open_mpi_host_file(const Environment& environment) {
  for (const auto* variable : {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"}) {
    if (auto file = set_in(environment, variable)) return file;
  }
  return std::nullopt;
}

std::optional<std::string> host_file_of(const Environment& environment) {
  if (const auto prefix = set_in(environment, "SHAKEDOWN_LAUNCH")) {
    const auto of_mpirun = mpirun_prefix(words_in(*prefix));
    return of_mpirun ? of_mpirun->host_file : std::nullopt;
  }
  if (auto file = open_mpi_host_file(environment)) return file;
  const auto scheduler = scheduler_hosts(environment);
  return scheduler && !scheduler->list ? std::optional(scheduler->source) : std::nullopt;
}

std::vector<HostWithSlots> hosts_of(const LaunchSite& site) {
  if (site.host_file) {
    return with_slots(hosts_of_file(*site.host_file, host_file_of(site.environment).value_or("host file")));
  }
  const auto scheduler = scheduler_hosts(site.environment);
  if (!scheduler || !scheduler->list) return {};
  return with_slots(hosts_of_file(*scheduler->list, scheduler->source));
}

void use_mpirun(Launch& launch, const LaunchSite& site, const Words& shape, bool knows_hosts) {
  launch.prefix = launch.discovery = launch.alone = mpirun_words(site);
  if (!knows_hosts || !site.absent.empty()) {
    Words present;
    const auto listed = hosts_of(site);
    for (const auto& host : launch.hosts) {
      if (is_one_of(host, site.absent)) continue;
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

void require_mpirun(const LaunchSite& site, const std::string& source, int hosts) {
  if (set_in(site.environment, "SHAKEDOWN_RANKS") && hosts > 1) {
    refuse_launch("SHAKEDOWN_RANKS is for one host, " + source + " has " + std::to_string(hosts) + ": unset it, or");
  }
  if (!site.mpirun) refuse_launch(source + " lists hosts, but mpirun is missing: install Open MPI, or");
  if (site.other_mpi) {
    refuse_launch(source + " lists hosts, but mpirun is that of another MPI: make Open MPI's the first in PATH, or");
  }
}

}  // namespace shakedown
