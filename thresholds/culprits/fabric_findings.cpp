#include "thresholds/culprits/fabric_findings.hpp"

#include <set>
#include <utility>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {

std::string rail_text(std::size_t rail) { return "rail " + std::to_string(rail); }

Part part_of_places(const PairRounds& rounds, Cause cause, const std::vector<PairRounds::Place>& places) {
  if (places.empty() || cause == Cause::configuration) return {};
  const PairRounds::Host& host = rounds.hosts[places.front().first];
  std::set<std::string> leaves, hosts;
  for (const auto& place : places) {
    leaves.insert(rounds.hosts[place.first].leaf);
    hosts.insert(rounds.hosts[place.first].name);
  }
  switch (cause) {
    case Cause::slow_nic: return {PartKind::nic, rail_text(places.front().second), host.name};
    case Cause::slow_node: return host_part(host.name);
    case Cause::slow_leaf: return {PartKind::leaf, host.leaf, ""};
    case Cause::slow_uplink: return {PartKind::uplink, joined(leaves, " > "), ""};
    case Cause::slow_path: return {PartKind::path, joined(hosts.size() == 2 ? hosts : leaves, " > "), ""};
    default: return gpu_part(rounds.facts(places.front()));
  }
}

Finding pairs_finding(Status status, std::string detail) {
  Finding finding;
  classify(finding, Code::pairs);
  finding.key = Key("pairs");
  finding.status = status;
  finding.judgement = Judgement::peers;
  finding.detail = std::move(detail);
  finding.source = "the other hosts of this run";
  return finding;
}

Finding finding_of(const Diagnosis& d) {
  Finding finding = pairs_finding(Status::fail, causes_text(d) + ": " + d.detail);
  classify(finding, Code::pairs, d.evidence_count);
  if (!d.fails) finding.severity = Severity::warn;
  finding.part = d.part;
  finding.offenders = d.places;
  finding.offender_count = d.place_count;
  if (!d.places.empty()) finding.worst = d.places.front();
  finding.next = d.next;
  return finding;
}

std::vector<Attribution> attribute_waiting(const std::vector<Finding>& findings,
                                           const std::vector<Diagnosis>& suspects) {
  const Diagnosis* slowest = nullptr;
  for (const Diagnosis& d : suspects) {
    if (d.fails || d.causes.front() != Cause::slow_nic) continue;
    if (slowest == nullptr || *d.percent > *slowest->percent) slowest = &d;
  }
  if (slowest == nullptr) return {};
  std::vector<Attribution> attributions;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& f = findings[i];
    const auto compared = f.compared();
    if (!f.counts() || f.status != Status::fail || !compared || compared->limit.kind != LimitKind::min) continue;
    if (!is_collective(f.key.family()) && !is_training(f.key.family())) continue;
    if (compared->limit.is_missed_by(compared->value / (1 - *slowest->percent / 100))) continue;
    attributions.push_back({.finding = i,
                            .status = Status::inconclusive,
                            .offenders = slowest->places,
                            .part = slowest->part,
                            .own = f.own,
                            .reason = "all ranks wait for " + slowest->part.id + " of " + slowest->part.host +
                                      ", whose NIC may be healthy"});
  }
  return attributions;
}

Finding wrong_data_between_hosts(const PairRounds& rounds, const Row& row) {
  Finding finding;
  classify(finding, Code::wrong_data);
  finding.key = row.key;
  finding.status = Status::fail;
  finding.judgement = Judgement::peers;
  finding.wrong_ranks = row.wrong_ranks;
  finding.detail = "wrong data between hosts, seen at " + plural(row.wrong_ranks.size(), "rank");
  std::vector<Culprit> offenders;
  for (const int rank : row.wrong_ranks) {
    const auto i = static_cast<std::size_t>(rank);
    if (i < rounds.context->ranks.size()) offenders.push_back(culprit(rounds.context->ranks[i]));
  }
  name_offenders(finding, std::move(offenders));
  finding.offender_count = row.wrong_ranks.size();
  if (finding.worst) finding.part = part_of(row.key, PairRounds::metric, *rounds.context, *finding.worst->rank);
  finding.next = "measure pairs again; if it repeats, swap the NIC or the cable of this rank";
  return finding;
}

std::optional<Finding> unseen_nics(const PairRounds& rounds) {
  const auto places = rounds.unseen();
  if (places.empty()) return std::nullopt;
  Finding finding =
      pairs_finding(Status::missing, plural(places.size(), "rank") +
                                         " has no round that can be read, so the state of its NICs is unknown");
  classify(finding, Code::not_measured);
  std::vector<Culprit> offenders;
  for (const auto& place : places) offenders.push_back(culprit(rounds.facts(place)));
  name_offenders(finding, std::move(offenders));
  finding.part = part_of_places(rounds, Cause::slow_nic, places);
  finding.next = measure_command(finding.key, rounds.context->world_size);
  return finding;
}

}  // namespace shakedown
