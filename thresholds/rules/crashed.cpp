#include "thresholds/rules/crashed.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"

namespace shakedown {

namespace {

/// Names the GPUs of the ranks that died or hung, if at least one rank is known for each family.
void name_ranks(Finding& finding, const std::vector<Results>& files, const std::set<std::string>& families) {
  std::set<std::string> known, hung;
  std::map<int, Culprit> dead;
  for (const Results& file : files) {
    for (const DeadRank& death : file.context.dead_ranks) {
      known.insert(death.family);
      if (death.hung) hung.insert(death.family);
      for (const RankFacts& facts : file.context.ranks) {
        if (facts.rank == death.rank) dead.emplace(death.rank, culprit(facts));
      }
    }
  }
  if (dead.empty() || known != families) return;
  std::vector<Culprit> offenders;
  for (auto& [rank, place] : dead) offenders.push_back(std::move(place));
  finding.next = on_host(offenders.front().host, "dmesg -T | tail -n 50");
  if (hung == families) {
    finding.detail = "a rank hung in " + joined(families) +
                     "; results of another launch do not show that the machine can finish a run";
  }
  name_offenders(finding, std::move(offenders));
}

}  // namespace

std::optional<Finding> judge_crashed(const std::vector<Results>& files) {
  std::set<std::string> families, lost;
  int ranks = 0;
  for (const Results& file : files) {
    families.insert(file.context.crashed.begin(), file.context.crashed.end());
    lost.insert(file.context.lost_hosts.begin(), file.context.lost_hosts.end());
    ranks = file.context.world_size;
  }
  if (families.empty()) return std::nullopt;
  Finding finding;
  classify(finding, Code::crashed);
  finding.key = machine_key(Code::crashed);
  finding.status = Status::fail;
  // Each crash was the loss of a host, and the other hosts continued.
  if (lost.size() >= families.size()) {
    finding.detail = plural(static_cast<int>(lost.size()), "host") + " lost in " + joined(families) +
                     "; the other hosts then measured without " + (lost.size() == 1 ? "it" : "them");
    finding.next = "look at these hosts (power, network, dmesg), then measure them alone";
    std::vector<Culprit> offenders(lost.size());
    std::transform(lost.begin(), lost.end(), offenders.begin(), host_culprit);
    name_offenders(finding, std::move(offenders));
    return finding;
  }
  finding.detail = "a benchmark program crashed in " + joined(families) +
                   "; results of another launch do not show that the machine can finish a run";
  finding.next = "mpirun -np " + std::to_string(ranks) + " build/bench/bench_all --families=" + joined(families, ",") +
                 " --out-dir=.";
  if (lost.empty()) name_ranks(finding, files, families);
  return finding;
}

}  // namespace shakedown
