#include "launch/agreement.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>

#include "base/files.hpp"
#include "base/path_mtu.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "launch/choice.hpp"
#include "launch/discover.hpp"
#include "launch/hosts.hpp"
#include "launch/launcher_words.hpp"
#include "launch/schedulers.hpp"
#include "launch/time_left.hpp"
#include "launch/with_mpirun.hpp"
#include "launch/words.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

Words with(const Words& prefix, const Words& command) {
  Words all = prefix;
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

std::string boot_of(const HostAnswer& answer) { return answer.host + " " + answer.boot_id.value_or(""); }

/// The job in which each host reports its identity: the answers of the hosts, and its other output.
struct Discovery {
  std::vector<HostAnswer> answers;
  std::vector<std::string> said;  // first lines of the job's standard error
};

constexpr std::size_t max_lines_said = 500;

Job discovery_job(const AcceptOptions& options, const Launch& launch, const Words& prefix, Discovery& call) {
  Job job{with(prefix, {fs::read_symlink("/proc/self/exe"), "discover"}), launch.variables};
  job.out = [&call](std::string_view line) {
    if (auto answer = answer_in(line)) call.answers.push_back(std::move(*answer));
  };
  job.error = [&call](std::string_view line) {
    if (call.said.size() < max_lines_said) call.said.emplace_back(line);
  };
  job.limit = std::chrono::duration<double>(options.startup_timeout);
  return job;
}

/// The answers of hosts that were asked one by one, and for each other host the reason why it did not answer.
struct AskedAlone {
  std::vector<HostAnswer> answers;
  std::map<std::string, StartCause> causes;
};

/// Asks each host separately to find out which hosts fail, because mpirun starts nothing unless all hosts are
/// available.
AskedAlone ask_each(const AcceptOptions& options, const Launch& launch, const Words& asked, Signals& signals) {
  constexpr std::size_t hosts_at_once = 32;
  AcceptOptions patience = options;
  patience.startup_timeout = std::min(options.startup_timeout, 20.0);
  AskedAlone all;
  for (std::size_t begin = 0; begin < asked.size(); begin += hosts_at_once) {
    const Words hosts(asked.begin() + static_cast<std::ptrdiff_t>(begin),
                      asked.begin() + static_cast<std::ptrdiff_t>(std::min(begin + hosts_at_once, asked.size())));
    std::vector<Discovery> calls(hosts.size());
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      jobs.push_back(discovery_job(patience, launch, with(with(launch.alone, {hosts[i]}), launch.wrapper), calls[i]));
    }
    const auto endings = run_jobs(jobs, signals);
    stop_if_told(signals);
    const auto cause = [&](const Discovery& call, const Ending& ending) {
      return start_cause(ending, launch.alone.front(), call.said);
    };
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (calls[i].answers.empty()) all.causes.emplace(hosts[i], cause(calls[i], endings[i]));
      all.answers.insert(all.answers.end(), calls[i].answers.begin(), calls[i].answers.end());
    }
  }
  return all;
}

/// Returns a text for the case that no host answered: each reason once, with the hosts that it concerns.
std::string nobody_answered(const Words& hosts, const std::map<std::string, StartCause>& causes,
                            const StartCause& cause_of_all) {
  constexpr std::size_t max_hosts_named = 8, max_faults_named = 3;
  const auto named = [](const Words& some) {
    if (some.size() <= max_hosts_named) return joined(some);
    return joined(Words(some.begin(), some.begin() + max_hosts_named)) + " and " +
           std::to_string(some.size() - max_hosts_named) + " more";
  };
  struct Group {
    Words hosts;
    std::string text;
  };
  std::map<std::string, Group> groups;
  for (const auto& [host, cause] : causes) {
    auto& group = groups[cause.fault ? std::string(code(*cause.fault)) : cause.text];
    group.hosts.push_back(host);
    if (group.text.empty()) group.text = cause.text;
  }
  Words texts;
  for (const auto& [fault, group] : groups) {
    if (texts.size() == max_faults_named) break;
    texts.push_back(groups.size() == 1 ? group.text : named(group.hosts) + ": " + group.text);
  }
  if (groups.size() > max_faults_named)
    texts.push_back("and " + plural(groups.size() - max_faults_named, "other cause"));
  if (texts.empty()) texts.push_back(cause_of_all.text);
  const auto who = hosts.empty()       ? "no host has answered"
                   : hosts.size() == 1 ? "host " + hosts.front() + " has not answered"
                                       : "no host of " + named(hosts) + " has answered";
  return who + ": " + joined(texts, "; ");
}

AbsentHost hung_driver(const HostAnswer& host) {
  return {host.name(), "the driver of " + host.name() + " does not answer: " + host.driver_hangs.value_or(""), true};
}

/// Removes the hosts whose driver does not respond from the list. Returns the removed hosts.
std::vector<AbsentHost> without_hung(std::vector<HostAnswer>& hosts) {
  std::vector<AbsentHost> hung;
  for (const auto& host : hosts) {
    if (host.driver_hangs) hung.push_back(hung_driver(host));
  }
  std::erase_if(hosts, [](const HostAnswer& host) { return host.driver_hangs.has_value(); });
  return hung;
}

/// Reports the part of a host's mask that CUDA ignores. Errors: CannotRun if CUDA shows no GPU.
void require_usable_mask(const std::vector<HostAnswer>& hosts) {
  for (const auto& host : hosts) {
    if (!host.mask_ignored) continue;
    const auto line = host.name() + ": " + host.mask.value_or("") + " leaves " + plural(host.usable_gpus, "GPU") +
                      ": " + *host.mask_ignored + "; correct or unset it";
    if (host.usable_gpus == 0) throw CannotRun(line);
    say(line);
    return;  // all hosts of a job usually have the same mask, so one report is enough
  }
}

/// Returns the hosts that lose packets of the size of the MTU. Programs on them start, and then hang.
std::map<std::string, int> hosts_behind_a_smaller_mtu(const Launch& launch, Words known, const std::string& here) {
  constexpr std::chrono::milliseconds patience(300);
  known.push_back(here);
  return hosts_losing_large_packets(hosts_without(launch.promised(), known), patience);
}

std::string packets_lost(const std::string& here, int bytes) {
  return "IP packets of " + std::to_string(bytes) + " bytes from " + here +
         " do not arrive, smaller packets do: a switch port on the path, or the other host, has a smaller MTU";
}

/// True if `version` is the version text of mpirun of MPICH or Intel MPI, whose options differ from those of Open MPI
/// and IBM's Spectrum MPI.
bool is_of_hydra(const std::string& version) {
  return version.find("HYDRA") != std::string::npos || version.find("Intel(R) MPI") != std::string::npos;
}

LaunchSite site_of(const Environment& environment) {
  LaunchSite site;
  site.environment = environment;
  site.program = fs::read_symlink("/proc/self/exe");
  if (const auto file = host_file_of(environment)) site.host_file = content_of(*file);
  const bool slurm = environment("SLURM_JOB_ID").has_value() && !environment("SHAKEDOWN_LAUNCH");
  constexpr std::chrono::seconds answer_limit(20);
  if (slurm && on_path(environment, "srun")) site.srun_plugins = output_of({"srun", "--mpi=list"}, answer_limit).text;
  site.mpirun = on_path(environment, "mpirun");
  if (const auto scheduler = scheduler_hosts(environment); scheduler && scheduler->agent) {
    site.agent = on_path(environment, scheduler->agent->substr(0, scheduler->agent->find(' ')));
    site.other_mpi = site.mpirun && is_of_hydra(output_of({"mpirun", "--version"}, answer_limit).text);
  }
  site.ssh = on_path(environment, "ssh") || on_path(environment, "rsh");
  site.root = geteuid() == 0;
  return site;
}

Launch chosen_launch(const AcceptOptions& options, const LaunchSite& site) {
  auto launch = choose_launch(site);
  if (options.interface.empty()) return launch;
  for (const auto* of_mpi : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"}) {
    launch.variables.emplace_back(of_mpi, options.interface);
  }
  return launch;
}

/// The hosts that answered, and the hosts that did not.
struct AskedHosts {
  std::vector<HostAnswer> hosts;
  Words absent;
  std::map<std::string, std::string> reasons;  // for each host that did not answer, the reason
  std::string why_none;                        // set if no host answered
};

/// Asks all hosts at once. Then asks each host alone that did not answer, because if one host fails, mpirun starts
/// nothing, or ends what it has started.
AskedHosts ask_hosts(const AcceptOptions& options, const Launch& launch, const Words& lost, Signals& signals) {
  Discovery call;
  const auto ending = run_jobs({discovery_job(options, launch, launch.discovery, call)}, signals).front();
  stop_if_told(signals);
  const auto cause = [&](std::string_view host) {
    return start_cause(ending, launch.discovery.front(), call.said, host);
  };
  AskedHosts asked{distinct_hosts(call.answers), lost, {}, {}};
  const auto& listed = launch.promised();
  if (!asked.hosts.empty()) {
    asked.absent = absent_hosts(listed, asked.hosts);
    for (const auto& host : asked.absent) asked.reasons.emplace(host, cause(host).text);
    const auto silent = hosts_without(asked.absent, lost);
    if (silent.size() < 2 || launch.alone.empty() || !ending.told.empty()) return asked;
    auto alone = ask_each(options, launch, silent, signals);
    for (const auto& [host, why] : alone.causes) asked.reasons[host] = why.text;
    asked.hosts.insert(asked.hosts.end(), alone.answers.begin(), alone.answers.end());
    asked.hosts = distinct_hosts(std::move(asked.hosts));
    asked.absent = absent_hosts(listed, asked.hosts);
    return asked;
  }
  AskedAlone alone;
  if (listed.size() > 1 && !launch.alone.empty()) {
    alone = ask_each(options, launch, hosts_without(listed, lost), signals);
  }
  // If every host answers alone but all together do not, their common fault would also prevent the ranks from starting.
  if (!alone.causes.empty()) asked.hosts = distinct_hosts(std::move(alone.answers));
  for (const auto& [host, why] : alone.causes) {
    asked.absent.push_back(host);
    asked.reasons[host] = why.text;
  }
  if (asked.hosts.empty()) asked.why_none = nobody_answered(listed, alone.causes, cause(""));
  return asked;
}

void note_answers(Launch& launch, AskedHosts asked) {
  for (const auto& host : asked.hosts) {
    launch.present.push_back(host.name());
    launch.boots.push_back(boot_of(host));
    if (host.node) launch.pods.emplace_back(host.host, *host.node);
  }
  launch.absent = std::move(asked.absent);
  launch.reasons = std::move(asked.reasons);
}

}  // namespace

bool on_path(const Environment& environment, const std::string& program) {
  for (const auto& folder : split(environment("PATH").value_or(""), ':')) {
    const TimedCall call("look in", folder);
    if (access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

void say(const std::string& line) { std::fprintf(stderr, "shakedown: %s\n", line.c_str()); }

void stop_if_told(Signals& signals) {
  if (const auto& signal = signals.taken()) throw CannotRun("ended by " + *signal);
}

Words promised_hosts(const Launch& launch, const Words& named) {
  Words all = named, found;
  for (const auto& [pod, node] : launch.pods) {
    if (is_one_of(node, named)) all.push_back(pod);
  }
  std::ranges::copy_if(launch.promised(), std::back_inserter(found),
                       [&](const auto& host) { return is_one_of(host, all); });
  return found;
}

Launch agreed_launch(const AcceptOptions& options, const Environment& environment, Signals& signals,
                     const Words& lost) {
  std::string why;
  auto launch = launch_that_answers(options, environment, signals, lost, why);
  if (!launch) throw CannotRun(why);
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (const auto left = seconds_left(environment, now)) launch->ends = now + *left;
  return std::move(*launch);
}

std::optional<Launch> launch_that_answers(const AcceptOptions& options, const Environment& environment,
                                          Signals& signals, const Words& lost, std::string& why) {
  const auto here = answer_of_this_host(environment);
  auto site = site_of(environment);
  site.host = here.host;
  site.gpus = here.usable_gpus;
  site.has_gpus = !here.gpus.empty();
  site.absent = lost;
  auto launch = chosen_launch(options, site);
  if (!launch.note.empty()) say(launch.note);
  if (launch.discovery.empty()) {
    if (here.driver_hangs) throw DriverHangs({hung_driver(here)});
    require_usable_mask({here});
    launch.boots = {boot_of(here)};
    return launch;
  }
  const auto losing = hosts_behind_a_smaller_mtu(launch, lost, here.host);
  for (const auto& [host, bytes] : losing) site.absent.push_back(host);
  if (!losing.empty() && hosts_without(launch.promised(), site.absent).empty()) {
    why = "no host can work with the others: " + packets_lost(here.host, losing.begin()->second);
    return std::nullopt;
  }
  launch = chosen_launch(options, site);
  auto asked = ask_hosts(options, launch, site.absent, signals);
  for (const auto& [host, bytes] : losing) asked.reasons[host] = packets_lost(here.host, bytes);
  if (asked.hosts.empty()) {
    why = asked.why_none;
    return std::nullopt;
  }
  const auto hung = without_hung(asked.hosts);
  for (const auto& one : hung) {
    asked.absent.push_back(one.host);
    asked.reasons[one.host] = one.reason;
  }
  if (asked.hosts.empty()) throw DriverHangs(hung);
  for (const auto& host : asked.absent) {
    if (is_one_of(host, lost)) continue;
    say("host " + host + (losing.contains(host) ? " cannot work with the others" : " does not answer") +
        ", so it is not measured and counts as missing: " + asked.reasons[host]);
  }
  require_usable_mask(asked.hosts);
  int most = 0;
  for (const auto& host : asked.hosts) {
    most = std::max(most, host.usable_gpus);
    site.gpus_by_host[host.host] = host.usable_gpus;
  }
  if (most > 0) site.gpus = most;  // the host of the launcher may have no GPU
  site.absent = asked.absent;
  const int promised = launch.host_count;
  launch = chosen_launch(options, site);
  launch.host_count = std::max(promised, static_cast<int>(asked.hosts.size()));
  note_answers(launch, std::move(asked));
  for (const auto& one : hung) launch.hung_drivers.push_back(one.host);
  launch.lost_bytes = losing;
  return launch;
}

}  // namespace shakedown
