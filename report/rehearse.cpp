#include "report/rehearse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <thread>

#include "base/files.hpp"
#include "base/nearest_word.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "report/rehearsal_outcome.hpp"

namespace shakedown {
namespace {

using rehearsal::Outcome, rehearsal::Shape, rehearsal::Weakness;

struct FaultKind {
  Weakness what;
  std::string_view text;
  int least_hosts = 1;  // a host differs from other hosts, and pairs of hosts show a NIC
};
constexpr std::array fault_kinds{
    FaultKind{Weakness::gemm, "GEMM of one GPU"},    FaultKind{Weakness::hbm, "memory of one GPU"},
    FaultKind{Weakness::link, "NVLink of one GPU"},  FaultKind{Weakness::gpu, "one GPU in all work"},
    FaultKind{Weakness::host, "one host", 2},        FaultKind{Weakness::nic, "one NIC", 3},
    FaultKind{Weakness::leaf, "one leaf switch", 3},
};
constexpr std::array fault_parts{0.03, 0.05, 0.10};

/// A leaf switch differs from others only if there are at least two.
bool can_be_in(const FaultKind& kind, const Shape& shape) {
  if (kind.what == Weakness::leaf && (!shape.leaves_are_known || shape.hosts <= shape.leaf_hosts)) return false;
  if (kind.what == Weakness::link && shape.gpus < 2) return false;
  return shape.hosts >= kind.least_hosts;
}

/// Judges clusters with one fault, or without one. Each cell of the table has seeds of its own, so that all clusters
/// are independent.
std::vector<Outcome> outcomes_of(const RehearsalPlan& plan, std::optional<rehearsal::Fault> fault, std::size_t cell,
                                 const std::vector<Profile>& profiles) {
  constexpr std::uint64_t seeds_of_a_cell = 1'000'000;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(plan.clusters));
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (auto i = next++; i < outcomes.size(); i = next++) {
      rehearsal::Order order;
      order.shape = plan.shape;
      order.noise = plan.noise;
      order.seed = plan.seed + cell * seeds_of_a_cell + i;
      order.limits = &profiles;
      if (fault) order.faults = rehearsal::placed({*fault}, plan.shape, order.seed);
      const rehearsal::Fleet fleet(order);
      outcomes[i] = rehearsal::outcome_of(fleet, rehearsal::judge_fleet(fleet, profiles));
    }
  };
  {
    std::vector<std::jthread> threads(std::max(1U, std::thread::hardware_concurrency()));
    for (auto& thread : threads) thread = std::jthread(work);
  }
  return outcomes;
}

constexpr int max_hosts = 512;  // the judge was tested with up to 4,096 GPUs
constexpr int clusters_of_clauses =
    29;  // with fewer, no lower bound reaches `min_probability`, not even if all are named
constexpr double min_probability = 0.9;  // the lower bound of a probability that a clause can promise

/// Fewer clusters if they are large, so that a rehearsal takes seconds to a few minutes.
int usual_clusters(const Shape& shape) { return shape.ranks() <= 128 ? 50 : 30; }

/// Returns the largest number of hosts under one leaf switch.
int largest_leaf(const std::map<std::string, std::string>& leaf_of_host) {
  std::map<std::string, int> hosts;
  for (const auto& [host, leaf] : leaf_of_host) ++hosts[leaf];
  int most = 0;
  for (const auto& [leaf, count] : hosts) most = std::max(most, count);
  return most;
}

double lower_bound_of(int k, int n) { return 1 - binomial_upper_bound(n - k, n, 0.025); }

std::string odds_text(const Found& found) {
  return fmt::format("{}/{} ({:.0f} to {:.0f} %)", found.named, found.of, 100 * lower_bound_of(found.named, found.of),
                     100 * binomial_upper_bound(found.named, found.of, 0.025));
}

std::string at_most(int k, int n) {
  return fmt::format("{} of {} (at most {:.1f} %)", k, n, 100 * binomial_upper_bound(k, n));
}

/// Returns one line for each kind of fault, with a column for each loss.
std::string table_of(const std::vector<Found>& found) {
  std::string text = fmt::format("  {:<24}", "");
  for (const double part : fault_parts) text += fmt::format("{:<24}", fmt::format("{:.0f} % slow", 100 * part));
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i % fault_parts.size() == 0) text += fmt::format("\n  {:<24}", found[i].fault);
    text += fmt::format("{:<24}", odds_text(found[i]));
  }
  std::string trimmed;
  for (auto line : split(text, '\n')) trimmed += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return trimmed;
}

/// The clause about one kind of fault: the smallest loss that the acceptance dependably finds, or that there is none.
std::string clause_of(std::span<const Found> losses) {
  for (const Found& found : losses) {
    const double least = 1 - binomial_upper_bound(found.of - found.named, found.of);
    if (least < min_probability) continue;
    return fmt::format("If slow by {:.0f} % or more, {} is named with a probability of at least {:.0f} %.\n",
                       100 * found.part, found.fault, 100 * least);
  }
  const Found& largest = losses.back();
  return fmt::format("No promise is made for {}: slow by {:.0f} %, it is named in {} of {} clusters.\n", largest.fault,
                     100 * largest.part, largest.named, largest.of);
}

std::string clauses(const RehearsalPlan& plan, const Rehearsal& rehearsal) {
  if (plan.clusters < clusters_of_clauses)
    return fmt::format("\nClauses for a contract need --clusters={} or more.\n", clusters_of_clauses);
  std::string text = fmt::format(
      "\nClauses for a contract:\n"
      "1. The cluster is accepted when shakedown accept, run on {}, ends with PASS and exit code 0.\n"
      "2. A part that the verdict names is repaired or replaced, and the acceptance is repeated.\n",
      plan.shape.hosts == 1 ? "the host" : fmt::format("all {} hosts at once", plan.shape.hosts));
  int number = 3;
  for (std::size_t i = 0; i < rehearsal.found.size(); i += fault_parts.size())
    text += fmt::format("{}. ", number++) + clause_of(std::span(rehearsal.found).subspan(i, fault_parts.size()));
  return text + fmt::format("{}. A cluster without a fault does not pass with a probability of at most {:.1f} %.\n",
                            number, 100 * binomial_upper_bound(rehearsal.failed, plan.clusters));
}

/// Returns the number of healthy clusters that do not pass. Errors: InputError if most do not, because the generator or
/// the profiles then do not describe such a cluster.
int count_failed(const std::vector<Outcome>& healthy) {
  int failed = 0;
  State other = State::pass;
  for (const Outcome& outcome : healthy) {
    if (outcome.state == State::pass) continue;
    ++failed;
    other = outcome.state;
  }
  if (2 * failed > static_cast<int>(healthy.size())) {
    throw InputError(
        fmt::format("rehearse: by these profiles a simulated healthy cluster of this shape ends as {}, so "
                    "nothing follows for faults; take 8 GPUs for each host, and the shipped profiles",
                    name(other)));
  }
  return failed;
}

std::vector<std::string> known_noises(const std::filesystem::path& folder) {
  std::vector<std::string> known;
  for (const auto& name : names_in(folder).value_or(std::vector<std::string>{}))
    known.push_back(name.substr(0, name.find('.')));
  std::sort(known.begin(), known.end());
  return known;
}

}  // namespace

RehearsalPlan rehearsal_plan(const Arguments& arguments, const std::filesystem::path& noise_folder) {
  const auto& flags = arguments.rehearsal;
  RehearsalPlan plan;
  plan.shape.gpus = flags.gpus;
  plan.shape.hosts = flags.hosts.value_or(0);
  if (arguments.site) {
    const Site site = read_site(*arguments.site);
    if (!flags.hosts) plan.shape.hosts = static_cast<int>(site.roster.size());
    plan.shape.leaves_are_known = !site.topology.empty();
    if (plan.shape.leaves_are_known) plan.shape.leaf_hosts = largest_leaf(site.topology);
  }
  if (plan.shape.hosts == 0) {
    throw InputError("rehearse: the number of hosts is unknown; give --hosts=N, or --site=FILE with a roster");
  }
  if (plan.shape.hosts > max_hosts) {
    throw InputError(fmt::format("rehearse: {} are more than the {} for which the judge was tested",
                                 plural(plan.shape.hosts, "host"), max_hosts));
  }
  const auto known = known_noises(noise_folder);
  if (std::find(known.begin(), known.end(), flags.noise) == known.end())
    throw InputError("--noise: \"" + flags.noise + "\" is unknown; take one of " + joined(known) +
                     did_you_mean(flags.noise, known));
  plan.noise = rehearsal::read_noise(noise_folder / (flags.noise + ".yaml"));
  plan.clusters = flags.clusters.value_or(usual_clusters(plan.shape));
  plan.seed = flags.seed;
  return plan;
}

Rehearsal rehearse(const RehearsalPlan& plan, const std::vector<Profile>& profiles) {
  Rehearsal all;
  std::size_t cell = 0;
  all.failed = count_failed(outcomes_of(plan, std::nullopt, cell, profiles));
  for (const auto& kind : fault_kinds) {
    if (!can_be_in(kind, plan.shape)) continue;
    for (const double part : fault_parts) {
      Found found{std::string(kind.text), part, 0, plan.clusters};
      for (const Outcome& outcome : outcomes_of(plan, rehearsal::Fault{kind.what, part}, ++cell, profiles)) {
        found.named += outcome.first;
        all.accused += outcome.innocent;
      }
      all.found.push_back(std::move(found));
    }
  }
  return all;
}

std::string rehearsal_text(const RehearsalPlan& plan, const Rehearsal& rehearsal) {
  const Shape& shape = plan.shape;
  const int faulty = static_cast<int>(rehearsal.found.size()) * plan.clusters;
  std::string text =
      fmt::format("rehearsal: {} with {}{}; quick tier, rates of H200, noise \"{}\", seeds from {}\n",
                  plural(shape.hosts, "host"), plural(shape.gpus, "GPU") + (shape.hosts > 1 ? " each" : ""),
                  shape.leaves_are_known && shape.hosts > 1
                      ? fmt::format(", as if each leaf switch had {}", std::min(shape.leaf_hosts, shape.hosts))
                      : "",
                  plan.noise.name, plan.seed);
  text += "\nSimulated clusters in which the verdict names the slow part first (95 % interval):\n";
  text += table_of(rehearsal.found);
  text += "\nA healthy part is named in " + at_most(rehearsal.accused, faulty) + " of the clusters with a fault.\n";
  text += "A cluster without a fault does not pass in " + at_most(rehearsal.failed, plan.clusters) + ".\n";
  text += "These clusters are simulated with the noise of stored runs; your cluster may vary more.\n";
  return text + clauses(plan, rehearsal) +
         fmt::format("\nHow long it takes: shakedown accept --plan --ranks={}\n", shape.ranks());
}

int rehearse(const Arguments& arguments, const std::filesystem::path& noise_folder) {
  const auto plan = rehearsal_plan(arguments, noise_folder);
  const auto text = rehearsal_text(plan, rehearse(plan, load_profiles(arguments.thresholds)));
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace shakedown
