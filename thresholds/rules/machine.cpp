// Checks that the run includes the whole machine: all hosts, ranks and GPUs, each once, in one complete run.
#include "thresholds/rules/machine.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/host_list.hpp"
#include "base/text.hpp"
#include "thresholds/rules/contradiction.hpp"
#include "thresholds/rules/expectation.hpp"

namespace shakedown {
namespace {

using Files = std::vector<Results>;

Finding pass(Code code, std::string detail) {
  Finding finding;
  classify(finding, code);
  finding.key = machine_key(code);
  finding.detail = std::move(detail);
  return finding;
}

void compare(Finding& finding, int value, int limit, const char* unit) {
  finding.value = value;
  finding.limit = {LimitKind::equals, static_cast<double>(limit)};
  finding.unit = unit;
}

std::string file_name(const Results& file) { return file.file.filename().string(); }

std::string in_file(const Results& file) { return " (" + file_name(file) + ")"; }

std::map<std::string, std::vector<const RankFacts*>> ranks_by_host(const Context& context) {
  std::map<std::string, std::vector<const RankFacts*>> hosts;
  for (const RankFacts& rank : context.ranks) hosts[rank.host].push_back(&rank);
  return hosts;
}

// Returns the facts of a host; nullptr if the results have none.
const HostFacts* facts_of(const Context& context, const std::string& host) {
  const auto found = std::find_if(context.inventory.begin(), context.inventory.end(),
                                  [&](const HostFacts& facts) { return facts.host == host; });
  return found == context.inventory.end() ? nullptr : &*found;
}

// ---------------------------------------------------------------------------------------------------------------------
// One function per finding

Finding judge_complete(const Files& files, const JudgeOptions& options) {
  Finding finding = pass(Code::complete, "all runs ended");
  if (options.unfinished)
    set(finding, Status::missing, *options.unfinished, "wait for the end of the run, or measure again");
  for (const Results& file : files) {
    if (file.context.complete) continue;
    const std::string family = file.rows.empty() ? file.file.stem().string() : file.rows.front().key.family();
    set(finding, Status::missing, file_name(file) + ": the run stopped early",
        measure_command(family, file.context.world_size));
    break;
  }
  return finding;
}

Finding judge_run_id(const Files& files, const JudgeOptions& options) {
  for (const Results& file : files) {
    if (!options.run_id || file.context.run_id == *options.run_id) continue;
    Finding finding = pass(Code::run_id, "");
    set(finding, Status::fail, file_name(file) + " is of run " + file.context.run_id + ", not of " + *options.run_id,
        "let one run at a time use a folder of results (SHAKEDOWN_BUILD names another), and measure again");
    return finding;
  }
  const std::string again = "measure again into an empty folder, or pass --mixed-runs to permit this";
  if (const auto wrong = contradiction(files); wrong && !options.mixed_runs) {
    Finding finding = pass(Code::run_id, "");
    set(finding, Status::invalid, *wrong, again);
    return finding;
  }
  std::map<std::string, std::string> first_file;  // by run: its first file
  for (const Results& file : files) first_file.emplace(file.context.run_id, file_name(file));
  if (first_file.size() == 1) return pass(Code::run_id, first_file.begin()->first);
  std::string list;
  for (const auto& [run, file] : first_file) list += (list.empty() ? "" : ", ") + file + " of run " + run;
  Finding finding = pass(Code::run_id, "files of different runs, permitted by --mixed-runs: " + list);
  if (!options.mixed_runs) {
    set(finding, Status::fail, "files of different runs: " + list, again);
  }
  return finding;
}

// Returns what shows that a host without measured GPUs should have some: its bus, a mask, a scheduler or a driver.
// Empty if nothing does.
std::string promise_of_gpus(const HostFacts& host) {
  if (host.pci_gpus.value_or(0) > 0) return plural(*host.pci_gpus, "NVIDIA GPU") + " on its PCI bus";
  if (host.masked_gpus.value_or(0) > 0) {
    return plural(*host.masked_gpus, "GPU") + " by " + host.mask.value_or("its mask") + " and none on its PCI bus";
  }
  if (host.nvidia_driver) return "NVIDIA's kernel driver (" + *host.nvidia_driver + ") and no GPU on its PCI bus";
  return "";
}

std::vector<std::string> names_of(const std::set<Backend>& backends) {
  std::vector<std::string> all;
  for (const Backend backend : backends) all.emplace_back(name(backend));
  return all;
}

std::string virtual_gpu_of(const Files& files) {
  const auto& ranks = files.front().context.ranks;
  return ranks.empty() ? "virtual GPU" : ranks.front().device;
}

Finding judge_backend(const Files& files, const Expectation& expected) {
  std::set<Backend> backends;
  for (const Results& file : files) backends.insert(file.context.backend);
  const Backend backend = *backends.begin();
  Finding finding = pass(Code::backend, std::string(name(backend)));
  if (backends.size() > 1) {
    set(finding, Status::fail, "the files are of several backends: " + joined(names_of(backends)),
        "measure all families with the same --backend");
    return finding;
  }
  if (expected.backend && *expected.backend != backend) {
    const std::string wanted(name(*expected.backend));
    set(finding, Status::fail,
        "measured on " + std::string(name(backend)) + ", " + wanted + " expected by " + expected.backend_said_by,
        "measure with --backend=" + wanted);
    return finding;
  }
  if (backend == Backend::virtual_gpu) {
    set(finding, Status::no_reference, "no GPU was measured: the times are computed for a " + virtual_gpu_of(files),
        "measure with --backend=cuda on a machine with GPUs");
    return finding;
  }
  if (backend == Backend::cuda) return finding;
  for (const Results& file : files) {
    for (const HostFacts& host : file.context.inventory) {
      const auto promise = promise_of_gpus(host);
      if (promise.empty()) continue;
      set(finding, Status::fail,
          host.host + " has " + promise + (host.pci_gpus.value_or(0) > 0 ? ", but none was measured" : "") +
              ": the run used the CPU",
          "nvidia-smi; then measure with --backend=cuda, which reports why CUDA fails");
      name_offenders(finding, {host_culprit(host.host)});
      return finding;
    }
  }
  // The bus could not be read, so there may be a GPU.
  for (const Results& file : files) {
    for (const auto& [host, ranks] : ranks_by_host(file.context)) {
      const HostFacts* facts = facts_of(file.context, host);
      if (facts != nullptr && facts->pci_gpus) continue;
      set(finding, Status::missing,
          file_name(file) + ": whether " + host + " has NVIDIA GPUs on its PCI bus is unknown",
          "check that /sys/bus/pci/devices can be read on " + host + ", and measure again");
      name_offenders(finding, {host_culprit(host)});
      return finding;
    }
  }
  return finding;
}

// Returns hosts of the roster with a different number of ranks.
std::vector<Culprit> wrong_counts(const Context& context, const std::vector<RosterEntry>& roster) {
  std::vector<Culprit> wrong;
  const auto by_host = ranks_by_host(context);
  for (const RosterEntry& entry : roster) {
    if (!entry.ranks) continue;
    const auto found = std::find_if(by_host.begin(), by_host.end(),
                                    [&](const auto& host) { return same_host(host.first, entry.host); });
    const std::size_t reported = found == by_host.end() ? 0 : found->second.size();
    if (reported == static_cast<std::size_t>(*entry.ranks)) continue;
    Culprit culprit = host_culprit(entry.host);
    culprit.value = static_cast<double>(reported);
    wrong.push_back(culprit);
  }
  return wrong;
}

bool has_reported(const Context& context, const std::string& host) {
  return std::any_of(context.ranks.begin(), context.ranks.end(),
                     [&](const RankFacts& rank) { return same_host(rank.host, host); });
}

/// Returns the hosts that did not start. Other findings do not expect them (thresholds/rules/start.hpp).
std::vector<std::string> absent_hosts(const Context& context) {
  std::vector<std::string> hosts;
  for (const auto& absent : context.absent) {
    if (!has_reported(context, absent.host)) hosts.push_back(absent.host);
  }
  return hosts;
}

/// Returns the hosts that this file does not have because they did not start, or were lost during the run.
std::vector<Culprit> hosts_not_here(const Files& files, const Results& file) {
  std::set<std::string> lost;
  for (const Results& other : files) {
    lost.insert(other.context.lost_hosts.begin(), other.context.lost_hosts.end());
    for (const auto& absent : other.context.absent) lost.insert(absent.host);
  }
  std::vector<Culprit> culprits;
  for (const auto& host : lost) {
    if (!has_reported(file.context, host)) culprits.push_back(host_culprit(host));
  }
  return culprits;
}

/// Returns the expected number of ranks of a file, without those of hosts that did not start, if all hosts have the
/// same number.
int expected_ranks(const Context& context, const Expectation& expected) {
  const int ranks = *expected.ranks, absent = static_cast<int>(absent_hosts(context).size());
  if (!expected.hosts || *expected.hosts < 1 || context.world_size == ranks || ranks % *expected.hosts != 0)
    return ranks;
  return ranks / *expected.hosts * std::max(*expected.hosts - absent, 0);
}

Finding judge_ranks(const Files& files, const JudgeOptions& options, const Expectation& expected) {
  const int size = files.front().context.world_size;
  Finding finding = pass(Code::ranks, plural(size, "rank"));
  for (const Results& file : files) {
    const int n = file.context.world_size;
    const int expected_here = expected.ranks ? expected_ranks(file.context, expected) : n;
    if (n != expected_here) {
      compare(finding, n, expected_here, "ranks");
      set(finding, n < expected_here ? Status::missing : Status::fail,
          plural(n, "rank") + " measured, " + std::to_string(*expected.ranks) + " expected by " +
              expected.ranks_said_by + in_file(file),
          "start " + plural(*expected.ranks, "rank") + " and measure again");
      auto wrong = wrong_counts(file.context, options.roster);
      name_offenders(finding, wrong.empty() ? hosts_not_here(files, file) : std::move(wrong));
      return finding;
    }
    if (n != size) {
      compare(finding, n, size, "ranks");
      set(finding, Status::fail,
          file_name(file) + " has " + plural(n, "rank") + ", " + file_name(files.front()) + " has " +
              std::to_string(size),
          "measure all families with the same number of ranks");
      name_offenders(finding, hosts_not_here(files, file));
      return finding;
    }
    if (auto wrong = wrong_counts(file.context, options.roster); !wrong.empty()) {
      set(finding, Status::missing, file_name(file) + ": the numbers of ranks per host differ from the roster",
          "start the ranks per host of the roster and measure again");
      name_offenders(finding, std::move(wrong));
      return finding;
    }
  }
  if (expected.ranks) compare(finding, size, size, "ranks");
  return finding;
}

void judge_roster(Finding& finding, const Results& file, const std::vector<RosterEntry>& roster) {
  const auto reported = ranks_by_host(file.context);
  std::vector<Culprit> absent, unexpected;
  const auto not_started = absent_hosts(file.context);
  for (const RosterEntry& entry : roster) {
    if (std::any_of(not_started.begin(), not_started.end(),
                    [&](const auto& host) { return same_host(host, entry.host); })) {
      continue;
    }
    if (std::none_of(reported.begin(), reported.end(), [&](const auto& h) { return same_host(h.first, entry.host); })) {
      absent.push_back(host_culprit(entry.host));
    }
  }
  for (const auto& [host, ranks] : reported) {
    if (std::none_of(roster.begin(), roster.end(),
                     [&, &name = host](const RosterEntry& entry) { return same_host(name, entry.host); })) {
      unexpected.push_back(host_culprit(host));
    }
  }
  if (!absent.empty()) {
    set(finding, Status::missing, file_name(file) + ": hosts of the roster that did not report",
        "check that these hosts are up and in the launcher's list of hosts");
    name_offenders(finding, std::move(absent));
  } else if (!unexpected.empty()) {
    set(finding, Status::fail, file_name(file) + ": hosts that are not in the roster", "correct the roster or the job");
    name_offenders(finding, std::move(unexpected));
  }
}

Finding judge_hosts(const Files& files, const JudgeOptions& options, const Expectation& expected) {
  const Context& first = files.front().context;
  Finding finding = pass(Code::hosts, plural(first.hosts, "host"));
  for (const Results& file : files) {
    const int n = file.context.hosts;
    const int not_started = static_cast<int>(absent_hosts(file.context).size());
    const int expected_here = expected.hosts && n != *expected.hosts ? *expected.hosts - not_started : n;
    if (expected.hosts) compare(finding, n, expected_here, "hosts");
    if (!options.roster.empty()) judge_roster(finding, file, options.roster);
    if (!finding.good()) return finding;
    if (expected.hosts && n != expected_here) {
      set(finding, n < expected_here ? Status::missing : Status::fail,
          plural(n, "host") + " measured, " + std::to_string(*expected.hosts) + " expected by " +
              expected.hosts_said_by + in_file(file),
          "name the hosts with --roster=FILE to see which did not report");
      name_offenders(finding, hosts_not_here(files, file));
      return finding;
    }
    std::set<std::string> names, first_names;
    for (const RankFacts& rank : file.context.ranks) names.insert(rank.host);
    for (const RankFacts& rank : first.ranks) first_names.insert(rank.host);
    if (names != first_names && !options.mixed_runs) {
      set(finding, Status::fail, file_name(file) + " and " + file_name(files.front()) + " come from different hosts",
          "measure all families on the same hosts");
      name_offenders(finding, hosts_not_here(files, file));
      return finding;
    }
  }
  return finding;
}

// Returns the number of GPUs that should have been measured on one host. A mask or a scheduler's binding lowers it; the
// finding then names this.
std::optional<int> gpus_of(const HostFacts& host) { return host.masked_gpus ? host.masked_gpus : host.pci_gpus; }

Finding judge_gpus(const Files& files, std::optional<int> of_kind) {
  Finding finding = pass(Code::gpus, "all measured");
  std::set<std::string> masks;
  for (const Results& file : files) {
    for (const auto& [host, ranks] : ranks_by_host(file.context)) {
      const HostFacts* facts = facts_of(file.context, host);
      const auto known = facts == nullptr ? std::nullopt : gpus_of(*facts);
      std::set<std::string> measured;
      for (const RankFacts* rank : ranks) measured.insert(rank->uuid.value_or("rank " + std::to_string(rank->rank)));
      const int n = static_cast<int>(measured.size());
      const int expected = known.value_or(n);
      if (!known) {
        set(finding, Status::missing, file_name(file) + ": the number of GPUs of " + host + " is unknown",
            "give the expected number of ranks: --expect=ranks=N, or --roster=FILE");
      } else if (n != expected) {
        compare(finding, n, expected, "GPUs");
        set(finding, n < expected ? Status::missing : Status::fail,
            plural(n, "GPU") + " of " + host + " measured, but the host has " + std::to_string(expected) +
                (facts->masked_gpus ? " by " + facts->mask.value_or("its mask") : "") + in_file(file),
            "nvidia-smi on " + host + "; start one rank per GPU and measure again");
      } else if (of_kind && !facts->masked_gpus && n < *of_kind) {
        compare(finding, n, *of_kind, "GPUs");
        set(finding, Status::missing,
            file_name(file) + ": " + host + " shows " + plural(n, "GPU") + ", and machines of this kind have " +
                std::to_string(*of_kind) + " (gpus_per_host of the profile)",
            "nvidia-smi and lspci on " + host + ": a GPU may have fallen off the bus");
      } else if (facts->masked_gpus && facts->pci_gpus && *facts->masked_gpus < *facts->pci_gpus) {
        masks.insert(facts->mask.value_or("a mask on " + host));
      }
      if (!finding.good()) {
        name_offenders(finding, {host_culprit(host)});
        return finding;
      }
    }
  }
  for (const std::string& mask : masks) finding.detail += "; only the GPUs that a mask allows: " + mask;
  return finding;
}

Finding judge_unique_devices(const Files& files) {
  Finding finding = pass(Code::unique_devices, "one rank each");
  for (const Results& file : files) {
    std::map<std::string, const RankFacts*> owners;
    for (const RankFacts& rank : file.context.ranks) {
      if (!rank.uuid && !rank.pci) {
        set(finding, Status::missing, file_name(file) + ": the GPU of a rank has no UUID and no PCI address",
            "nvidia-smi -L on that host");
        name_offenders(finding, {culprit(rank)});
        return finding;
      }
      const auto [owner, fresh] = owners.emplace(rank.uuid ? *rank.uuid : rank.host + " " + *rank.pci, &rank);
      if (fresh) continue;
      set(finding, Status::fail, file_name(file) + ": two ranks measured the same GPU",
          "start one rank per GPU; check CUDA_VISIBLE_DEVICES and the launcher's binding");
      name_offenders(finding, {culprit(*owner->second), culprit(rank)});
      return finding;
    }
  }
  return finding;
}

}  // namespace

std::vector<Finding> judge_machine(const Files& files, const JudgeOptions& options, std::optional<int> gpus_per_host) {
  const Expectation expected = expectation(files, options);
  std::vector<Finding> findings{judge_complete(files, options), judge_run_id(files, options),
                                judge_backend(files, expected), judge_ranks(files, options, expected),
                                judge_hosts(files, options, expected)};
  const auto is_cuda = [](const Results& file) { return file.context.backend == Backend::cuda; };
  if (std::all_of(files.begin(), files.end(), is_cuda)) {
    // If a number of ranks is expected, it replaces the number of GPUs on the bus.
    if (!expected.ranks) findings.push_back(judge_gpus(files, gpus_per_host));
    findings.push_back(judge_unique_devices(files));
  }
  const auto fault =
      std::find_if(files.begin(), files.end(), [](const Results& f) { return f.context.fault.has_value(); });
  if (fault != files.end()) {
    Finding finding = pass(Code::fault, "");
    set(finding, Status::fail,
        file_name(*fault) + ": a fault was injected, permitted by --allow-faults: " + *fault->context.fault,
        "measure without SHAKEDOWN_FAULT");
    finding.severity = Severity::warn;
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace shakedown
