// Finds causes of slow collectives and missed limits other than a single GPU or link.
#include "thresholds/culprits/common_cause.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

// In percent. A GPU that is slower than its peers by more than this shares its SMs with another program, because no
// healthy chip is that slow. Next to a program that used 90 % of one H200, a program was 25 to 30 % slower, and an
// AllReduce of 8 bytes took 570 us instead of 24.
constexpr double turns_percent = 20;

// NCCL user guide, troubleshooting: PCI access control; docs/troubleshooting.md has the commands.
constexpr const char* copies_alike =
    "; copies between all GPUs are equally slow: check ACS on PCIe switches, the IOMMU and confidential computing";

// A rank is late if it arrives at least 50 us and at least eight MADs after the other ranks.
constexpr double late_us = 50, late_mads = 8;
constexpr std::size_t enough_barriers = 3;

Evidence evidence_of(const Finding& f, const Compared& compared) {
  const double by = compared.limit.shortfall(compared.value);
  return {f.key, f.metric, f.judgement, compared.value, compared.limit.value, 100 * by, std::nullopt};
}

// Returns the recorded settings that are known to slow down collectives and copies.
std::string settings(const Context& context) {
  std::vector<std::string> set;
  for (const auto& [variable, value] : context.environment) {
    const bool place = variable == "NCCL_DEBUG_FILE" || variable == "NCCL_DEBUG" || variable == "NCCL_HOSTID";
    if (variable.rfind("NCCL_", 0) == 0 && !place) set.push_back(variable + "=" + value);
  }
  if (context.nccl.nvls) set.push_back("NVLS " + *context.nccl.nvls);
  if (context.nccl.transport) set.push_back("transport " + *context.nccl.transport);
  return set.empty() ? "" : "; set: " + joined(set);
}

struct Late {
  double centre, us;
};

Late late_limit(const std::vector<std::pair<int, double>>& arrival) {
  std::vector<double> values;
  for (const auto& [rank, delay] : arrival) values.push_back(delay);
  if (values.size() == 2) return {std::min(values[0], values[1]), std::min(values[0], values[1]) + late_us};
  const double centre = median(values);
  for (double& value : values) value = std::abs(value - centre);
  return {centre, centre + std::max(late_us, late_mads * 1.4826 * median(std::move(values)))};
}

std::vector<std::pair<int, double>> known(const RankValues& values) {
  std::vector<std::pair<int, double>> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) result.emplace_back(static_cast<int>(i), *values[i]);
  }
  return result;
}

// In a collective, the late rank has the shortest waiting time. Each benchmark begins with a barrier, so a rank with
// the shortest waiting time is late only if it also arrives late; otherwise the network may be the cause.
std::optional<std::pair<int, std::string>> late_rank(const RunEvidence& run) {
  std::map<int, std::size_t> late, last;
  std::map<int, std::vector<double>> delays;
  std::size_t barriers = 0, collectives = 0;
  for (const auto& [key, benchmark] : run.benchmarks()) {
    if (benchmark.context->world_size != run.context()->world_size || run.size() < 2) continue;
    if (benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
    if (const auto arrival = known(rank_values(benchmark, "arrival_us")); arrival.size() > 1) {
      ++barriers;
      const Late limit = late_limit(arrival);
      for (const auto& [rank, delay] : arrival) {
        if (delay <= limit.us) continue;
        ++late[rank];
        delays[rank].push_back(delay - limit.centre);
      }
    }
    if (!is_collective(key.family())) continue;
    ++collectives;
    if (const auto rank = slowest_rank(benchmark)) ++last[*rank];
  }
  for (const auto& [rank, times] : late) {
    if (barriers < enough_barriers || static_cast<double>(times) <= majority_share * static_cast<double>(barriers))
      continue;
    return std::pair(rank, "arrives " + fmt::format("{:.0f}", median(delays[rank])) + " us after the other ranks at " +
                               std::to_string(times) + " of " + plural(barriers, "benchmark"));
  }
  for (const auto& [rank, times] : last) {
    if (collectives < enough_barriers ||
        static_cast<double>(times) <= majority_share * static_cast<double>(collectives))
      continue;
    return std::pair(rank, "waits least in " + std::to_string(times) + " of " + plural(collectives, "collective") +
                               "; the other ranks wait for it");
  }
  return std::nullopt;
}

Diagnosis slow_by_configuration(const RunEvidence& run, std::vector<Evidence> slow) {
  const bool several = run.ranks_of().size() > 1;
  Diagnosis d;
  d.causes = {Cause::configuration};
  // `inside`: true if AllReduce inside each host was measured and no host is an outlier.
  bool inside = false, links = false;
  for (const Comparison& c : run.table().comparisons) {
    inside = inside || c.key.part("scope") == "node";
    links = links || c.key.family() == "p2p";
  }
  if (several) d.causes.push_back(Cause::slow_link);
  d.place_count = run.size();
  d.detail =
      std::string("collectives are slower than ") + (links ? "the links explain" : "expected") +
      ", and no rank is late. Suspected: " +
      (several ? inside ? "the network between the hosts or its settings, since collectives inside the hosts are normal"
                        : "the network between the hosts or its settings"
               : "the algorithm or the transport") +
      settings(*run.context());
  d.next = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING " +
           measure_command(slow.front().key, run.context()->world_size);
  add_evidence(d, std::move(slow));
  for (const Finding& f : run.findings()) {
    if (bad(f) && f.code == Code::limit && f.key.family() == "pairs") d.keys.push_back(f.key);
  }
  return d;
}

// Returns the index of the suspect for which ranks wait; nullopt if no suspect explains the waiting time.
std::optional<std::size_t> cause_of_waiting(const std::vector<Evidence>& slow, const std::vector<Diagnosis>& found) {
  double most_percent = 0;
  for (const Evidence& e : slow) most_percent = std::max(most_percent, e.percent.value_or(0));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Diagnosis& d = found[i];
    const Cause cause = d.causes.front();
    // A NIC within the tails of healthy NICs delays a collective as much as a faulty NIC.
    const bool fails = d.fails || cause == Cause::slow_nic;
    if (!fails || cause == Cause::slow_silicon || cause == Cause::configuration) continue;
    if (may_delay(d, most_percent)) return i;
  }
  return std::nullopt;
}

// Finds a GPU that another program shared when the run began, because that program may have ended before the rows of
// single GPUs were measured.
std::optional<Diagnosis> shared_gpu(const RunEvidence& run) {
  std::vector<int> shared;
  for (int rank = 0; static_cast<std::size_t>(rank) < run.size(); ++rank) {
    if (!run.table().telemetry.processes(rank).empty()) shared.push_back(rank);
  }
  if (shared.empty() || shared.size() == run.size()) return std::nullopt;
  Diagnosis d = run.diagnosis({Cause::slow_gpu}, shared);
  d.detail = "another program used this GPU when the run began, and all ranks wait for the GPU";
  d.next = run.on_host(shared.front(), "nvidia-smi -q -i " + run.gpu(shared.front()) + " -d PIDS");
  return d;
}

}  // namespace

Explanation explain_collectives(const RunEvidence& run, const std::vector<Diagnosis>& found) {
  std::vector<Evidence> slow;
  for (const Finding& f : run.findings()) {
    const auto compared = f.compared();
    if (!bad(f) || f.status != Status::fail || !compared || f.judgement == Judgement::peers) continue;
    const bool step = f.judgement == Judgement::crosscheck && f.key.family() == "lora_step";
    if (is_collective(f.key.family()) || step) slow.push_back(evidence_of(f, *compared));
  }
  if (const auto late = late_rank(run)) {
    Diagnosis d = run.diagnosis({Cause::late_rank}, {late->first});
    d.fails = !slow.empty();
    d.detail = late->second +
               (is_named(found, run.facts(late->first)) ? "" : "; the GPU of the rank is as fast as the others") +
               ": check the CPU core of the rank";
    d.next = run.on_host(late->first, "top -b -n 1 -1 | head -40");
    if (d.fails) add_evidence(d, std::move(slow));
    return {.suspect = std::move(d)};
  }
  if (slow.empty()) return {};
  if (const auto cause = cause_of_waiting(slow, found)) {
    return {.consequence = Consequence{*cause, readable(slow.front().key) + " is slow as a consequence"}};
  }
  if (auto shared = shared_gpu(run)) {
    add_evidence(*shared, std::move(slow));
    return {.suspect = std::move(shared)};
  }
  return {.suspect = slow_by_configuration(run, std::move(slow))};
}

/// True if a GPU only misses limits that the whole fleet misses by more, and no comparison says that it is slow.
bool is_as_slow_as_the_fleet(const Diagnosis& d, const Diagnosis& fleet, const RunEvidence& run) {
  const auto is_by_rule = [](const Evidence& evidence) { return evidence.by == Judgement::rule; };
  const auto is_missed_alike = [&](const Key& key) { return run.alike().contains(key.family()); };
  return d.causes.front() == Cause::slow_gpu && d.percent < fleet.percent && d.evidence_count == d.evidence.size() &&
         std::ranges::all_of(d.evidence, is_by_rule) && std::ranges::all_of(d.keys, is_missed_alike);
}

Explanation explain_missed_alike(const RunEvidence& run, const std::vector<Diagnosis>& found) {
  if (run.alike().empty()) return {};
  Diagnosis d;
  d.causes = {Cause::configuration, Cause::power_or_heat};
  std::vector<std::string> families;
  std::vector<Evidence> evidence;
  bool waiting = true;
  for (const auto& [family, findings] : run.alike()) {
    families.push_back(family);
    waiting = waiting && is_training(family);
    for (const Finding* f : findings) {
      if (const auto compared = f->compared()) evidence.push_back(evidence_of(*f, *compared));
    }
  }
  if (const auto cause = waiting ? cause_of_waiting(evidence, found) : std::nullopt) {
    return {.consequence = Consequence{*cause, joined(families, ", ", " and ") +
                                                   (families.size() == 1 ? " is" : " are") + " slow as a consequence"}};
  }
  d.place_count = run.size();
  const bool is_clock_set = run.table().telemetry.most_limited_by_setting(run.size());
  d.detail =
      "limits of " + joined(families, ", ", " and ") + " are missed by ranks that are not outliers among all " +
      std::to_string(run.size()) + ": " +
      (is_clock_set ? "a setting limits their clock (nvidia-smi -lgc or -ac)" : "a shared cause, not a single GPU") +
      settings(*run.context());
  if (run.size() > 0) d.telemetry = run.table().telemetry.text(0);
  d.next = measure_command(families.front(), run.context()->world_size);
  if (is_clock_set) {
    d.causes = {Cause::configuration};
    d.next = run.on_host(0, "nvidia-smi -rgc");
  } else if (run.alike().contains("p2p")) {
    d.causes = {Cause::configuration};
    d.detail += copies_alike;
    d.next = run.on_host(0, "lspci -vvv | grep ACSCtl");
  }
  add_evidence(d, evidence);
  Explanation explanation;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!is_as_slow_as_the_fleet(found[i], d, run)) continue;
    explanation.replaces.push_back(i);
    evidence.insert(evidence.end(), found[i].evidence.begin(), found[i].evidence.end());
  }
  if (!explanation.replaces.empty()) add_evidence(d, std::move(evidence));
  explanation.suspect = std::move(d);
  return explanation;
}

std::vector<Diagnosis> explained(std::vector<Diagnosis> found, const Explanation& explanation) {
  if (const auto& consequence = explanation.consequence) {
    found.at(consequence->suspect).detail += "; " + consequence->reason;
    found.at(consequence->suspect).fails = true;
  }
  for (auto i = explanation.replaces.rbegin(); i != explanation.replaces.rend(); ++i) {
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(*i));
  }
  if (explanation.suspect) found.push_back(*explanation.suspect);
  return found;
}

// Ranks that wait for a suspect slow down by the same amount as the suspect. If a collective is far slower, it has
// another cause. The exception is another program on the GPU: then even short operations wait until it yields the GPU.
bool may_delay(const Diagnosis& suspect, double percent) {
  const double own = suspect.percent.value_or(0);
  const bool in_turns = suspect.causes.front() == Cause::slow_gpu && own > turns_percent;
  return in_turns || own * 2 >= percent;
}

bool is_named(const std::vector<Diagnosis>& found, const RankFacts& rank) {
  return std::any_of(found.begin(), found.end(), [&](const Diagnosis& d) {
    return d.causes.front() != Cause::slow_silicon &&
           std::any_of(d.places.begin(), d.places.end(),
                       [&](const Culprit& p) { return p.rank ? *p.rank == rank.rank : p.host == rank.host; });
  });
}

}  // namespace shakedown
