// Finds the part of a network that is at fault. The rules for rail, leaf switch, host, uplink, NIC and path are applied
// in this order.
#include "thresholds/culprits/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/pair_limits.hpp"
#include "thresholds/culprits/fabric_findings.hpp"
#include "thresholds/culprits/leaf_paths.hpp"
#include "thresholds/culprits/pair_rounds.hpp"
#include "thresholds/units/healthy.hpp"

namespace shakedown {
namespace {

using pair_limits::slow_rate, pair_limits::slow_sum;
/// The limit for a single value is lower than `slow_rate`, because a single value has heavier tails than the best of
/// several.
constexpr double slow_single_rate = 0.9, slow_rate_of_uplink = 0.93;
constexpr std::size_t min_rounds = 3;
/// If at least this fraction of a leaf's hosts, or of a host's rails, is slow, it counts as most of them.
constexpr double min_leaf_share = 0.6, min_rail_share = 0.75;
/// In a fleet above 64 GPUs, a NIC may be healthy up to this limit: NCCL reaches 0.92 to 0.98 of the rate of a NIC
/// (docs/measuring.md), so the slowest NIC may be 6 % below the best, plus the scatter of pairs. A NIC that is 10 %
/// slow must fail in fleets of all sizes. The best of its rounds is up to this multiple of the scatter above its rate.
constexpr double min_rate_of_large_fleet = 0.925, faulty_nic_rate = 0.9, max_deviations_of_best = 3.5;
/// At most this fraction of the NICs, or one NIC, can be the slowest of healthy NICs.
constexpr double max_tail_share = 0.001;
/// Where hosts share cores, the scheduler may limit rates. Rates per core time then scatter no more than rates. Where
/// cables limit the rates, the waits are independent of them, and rates per core time scatter more. Runs in namespaces
/// on 2 cores at load 10 to 26 (2026-11), in which ranks waited for 66 to 99 % of the time: in 3 of 29 healthy runs of
/// 4 hosts a host was slow only by its waits, and the ratio was 0.7 to 0.9. It was 10 to 15 in 4 runs of 4 hosts with
/// cables of 200 Mbit/s, and 1.6 to 2.5 in 3 runs of 8 such hosts, in which the waits limited the rates as well.
constexpr double max_scatter_per_core = 1.25;
/// Two hosts are a single pair, whose ends cannot be distinguished.
constexpr std::size_t min_hosts = 3;

/// True if both suspects have a place on the same host.
bool overlap(const Diagnosis& a, const Diagnosis& b) {
  return std::ranges::any_of(a.places, [&](const Culprit& one) {
    return std::ranges::any_of(b.places, [&](const Culprit& other) { return one.host == other.host; });
  });
}

/// True if both suspects are the same part, or parts of the same host. A rail has no part, but a place.
bool agree(const Diagnosis& a, const Diagnosis& b) {
  if (!a.part.host.empty()) return a.part.host == b.part.host;
  if (a.part.id.empty() && b.part.id.empty() && !a.places.empty() && !b.places.empty()) {
    return a.places.front().rank == b.places.front().rank;
  }
  return a.part.kind == b.part.kind && a.part.id == b.part.id;
}

std::string part_text(const Part& part) {
  if (part.id.empty()) return "a rail on all hosts";
  return part.kind == PartKind::nic ? part.id + " of " + part.host : part.id;
}

class FabricJudge {
 public:
  FabricJudge(PairRounds rounds, const UnitTable& table) : table_(table), rounds_(std::move(rounds)) {}

  /// Accuses only suspects that agree with one of `others`.
  void require(std::vector<Diagnosis> others) { others_ = std::move(others); }

  FabricJudgement run() {
    for (const Benchmark* benchmark : rounds_.rows) {
      for (const Row* row : benchmark->rows) {
        if (!row->wrong_ranks.empty()) out_.wrong_data.push_back(wrong_data_between_hosts(rounds_, *row));
      }
    }
    if (auto unseen = unseen_nics(rounds_)) out_.findings.push_back(std::move(*unseen));
    if (rounds_.empty()) return std::move(out_);
    judge_rails();
    if (rounds_.hosts.size() >= min_hosts) {
      judge_leaves();
      judge_hosts();
      judge_between_leaves();
      judge_nics();
    }
    judge_single_pairs();
    judge_sums();
    acquit();
    conclude();
    return std::move(out_);
  }

 private:
  using Value = PairRounds::Value;
  using Sum = PairRounds::Sum;
  using Place = PairRounds::Place;

  bool open(const Place& place) const { return rounds_.low(place) && !explained_.contains(place); }

  // Returns the NICs of these hosts on one rail, without NICs that have no values.
  std::vector<Place> places_of(const std::vector<std::size_t>& hosts, std::size_t rail) const {
    std::vector<Place> places;
    for (const std::size_t host : hosts) {
      if (rounds_.at.contains({host, rail})) places.push_back({host, rail});
    }
    return places;
  }

  std::vector<std::size_t> all_hosts() const {
    std::vector<std::size_t> hosts(rounds_.hosts.size());
    std::iota(hosts.begin(), hosts.end(), std::size_t{0});
    return hosts;
  }

  // Returns the places that no suspect explains yet.
  std::vector<Place> open_of(std::vector<Place> places) const {
    std::erase_if(places, [&](const Place& place) { return !open(place); });
    return places;
  }

  // Returns the median of the best rates of these NICs, relative to those of other NICs.
  double middle(const std::vector<Place>& places) const {
    std::vector<double> xs;
    for (const Place& place : places) xs.push_back(*rounds_.best(place));
    return median(std::move(xs));
  }

  // --- suspects ---

  Diagnosis& suspect(std::vector<Cause> causes, const std::vector<Place>& places, double x, std::string detail,
                     std::string next) {
    Diagnosis d;
    d.causes = std::move(causes);
    d.part = part_of_places(rounds_, d.causes.front(), places);
    d.place_count = places.size();
    d.percent = 100 * (1 - x);
    d.detail = std::move(detail);
    d.next = std::move(next);
    std::vector<Evidence> evidence;
    for (const auto& place : places) {
      explained_.insert(place);
      if (d.places.size() < max_offenders) d.places.push_back(culprit(rounds_.facts(place), rounds_.best_rate(place)));
      const auto values = rounds_.at.find(place);
      if (values == rounds_.at.end()) continue;  // The end of the pair is unknown, because its partner is unknown.
      for (const Value& value : values->second) {
        if (value.x >= slow_rate) continue;
        evidence.push_back({*value.key, PairRounds::metric, Judgement::peers, value.rate,
                            rounds_.reference[place.second], 100 * (1 - value.x), std::nullopt});
      }
    }
    add_evidence(d, std::move(evidence));
    d.percent = 100 * (1 - x);
    out_.suspects.push_back(std::move(d));
    return out_.suspects.back();
  }

  static std::string slowness(double x) {
    return x <= 0 ? "does not answer" : fmt::format("is {:.0f} % slow", 100 * (1 - x));
  }

  // Returns the rate of a rail relative to the usual rate of all rails; 1 if no rail has a rate.
  static double against_others(const std::vector<double>& rates, std::size_t rail) {
    std::vector<double> known;
    for (const double rate : rates) {
      if (rate > 0) known.push_back(rate);
    }
    if (known.empty()) return 1;
    const double usual = known.size() > 2 ? median(known) : *std::max_element(known.begin(), known.end());
    return rates[rail] / usual;
  }

  // Compares each rail, over all hosts, with the other rails. If a rail is slow on all hosts, no single NIC is the
  // cause.
  void judge_rails() {
    if (rounds_.rails < 2) return;
    for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
      if (against_others(rounds_.reference, rail) >= slow_rate) continue;
      const auto same = rounds_.same_rounds(rail);
      const double x = against_others(same.rates, rail);
      if (x >= (same.rounds < min_rounds ? slow_single_rate : slow_rate)) continue;
      if (!rounds_.is_below_scatter(x)) {
        ++scattered_rails_;
        continue;
      }
      const auto places = places_of(all_hosts(), rail);
      if (places.empty()) continue;
      const auto& hosts = rounds_.hosts;
      const bool two = hosts.size() == 2;  // with two hosts, a fault of one is visible at both
      suspect(two ? std::vector{Cause::slow_nic, Cause::configuration} : std::vector{Cause::configuration}, places, x,
              fmt::format("{} {} {} compared with the other rails", rail_text(rail), slowness(x),
                          two ? "between " + hosts[0].name + " and " + hosts[1].name
                              : fmt::format("on all {} hosts", places.size())),
              "compare NCCL_IB_HCA, GID index, MTU and subnet of this rail's NICs with those of the others");
    }
  }

  void judge_leaves() {
    for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
      auto groups = rounds_.leaves();
      if (groups.size() == 1) groups.clear();  // the only group contains all hosts
      for (const auto& [leaf, members] : groups) {
        const auto places = open_of(places_of(members, rail));
        if (places.size() < min_values_of_leaf ||
            static_cast<double>(places.size()) < min_leaf_share * static_cast<double>(members.size())) {
          continue;
        }
        const double x = middle(places);
        suspect({Cause::slow_leaf}, places, x,
                fmt::format("leaf {} on {} {} for {} of its {} hosts, even between hosts of the leaf", leaf,
                            rail_text(rail), slowness(x), places.size(), members.size()),
                "look at the ports, errors and firmware of this leaf switch");
      }
    }
  }

  void judge_hosts() {
    for (std::size_t host = 0; host < rounds_.hosts.size(); ++host) {
      std::vector<Place> rails;
      for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
        if (rounds_.at.contains({host, rail})) rails.push_back({host, rail});
      }
      if (rounds_.fell_silent(host)) {
        auto& d = suspect({Cause::slow_node}, rails, 0,
                          fmt::format("{} does not answer any of its partners", rounds_.hosts[host].name),
                          "ping the host, and look at its console: it may be down");
        only_host(d, host);
        continue;
      }
      const auto all =
          std::ranges::count_if(rails, [&](const Place& place) { return rounds_.best(place).has_value(); });
      const auto places = open_of(rails);
      // True if the host has only one rail, and this rail is silent.
      const bool alone = rounds_.rails == 1 && places.size() == 1 && middle(places) <= 0;
      if (!alone &&
          (places.size() < 2 || static_cast<double>(places.size()) < min_rail_share * static_cast<double>(all)))
        continue;
      const double x = middle(places);
      auto& d = suspect({Cause::slow_node}, places, x,
                        fmt::format("{} {} on {} of {} rails with every partner{}", rounds_.hosts[host].name,
                                    slowness(x), places.size(), all, rounds_.way_of(places)),
                        x <= 0 ? "ping the host, and look at its console: it may be down"
                               : "compare PCIe, IOMMU, ACS and CPU governor of this host with those of others");
      only_host(d, host);
    }
  }

  void only_host(Diagnosis& d, std::size_t host) const {
    d.part = host_part(rounds_.hosts[host].name);
    d.places = {host_culprit(rounds_.hosts[host].name)};
    d.place_count = 1;
  }

  void judge_nics() {
    // If the topology is unknown, many hosts that are slow on one rail may share a leaf switch.
    const bool known = rounds_.leaves().size() > 0;
    for (std::size_t rail = 0; rail < rounds_.rails && !known; ++rail) {
      const auto places = open_of(places_of(all_hosts(), rail));
      if (places.size() < 2 * min_values_of_leaf) continue;
      const double x = middle(places);
      suspect({Cause::slow_leaf, Cause::slow_uplink}, places, x,
              fmt::format("{} hosts on {}: the median host {}; these hosts may share a leaf switch", places.size(),
                          rail_text(rail), slowness(x)),
              "add the leaf switch of each host to the site file (topology), and measure pairs again");
    }
    const double limit =
        std::max(min_rate_of_large_fleet, faulty_nic_rate + max_deviations_of_best * rounds_.scatter());
    std::vector<std::size_t> tails;  // indices of suspects
    for (const auto& [place, values] : rounds_.at) {
      if (!is_slow_nic(place, values)) continue;
      if (name_nic(place, values.size()) && *rounds_.best(place) >= limit) tails.push_back(out_.suspects.size() - 1);
    }
    const auto nics = rounds_.at.size();
    const auto most_tails = std::max(1.0, max_tail_share * static_cast<double>(nics));
    if (rounds_.context->ranks.size() < large_fleet || static_cast<double>(tails.size()) > most_tails) return;
    for (const std::size_t i : tails) {
      out_.suspects[i].fails = false;
      out_.suspects[i].detail += fmt::format("; the slowest of {} healthy NICs may be that slow", nics);
    }
  }

  bool is_slow_nic(const Place& place, const std::vector<Value>& values) const {
    if (!open(place)) return false;
    // The reference is the best of several rounds, which is 2 % above the usual rate. By chance, one of 8,000 NICs
    // may have no good round. Therefore a NIC that is slow compared with the usual rate was measured again.
    const bool again = std::ranges::any_of(values, &Value::confirms);
    if (!again && rounds_.best_rate(place) >= slow_rate * rounds_.typical[place.second]) return false;
    // A slow uplink affects half of the NIC's rounds, and the best of the other rounds varies more.
    return !across_explained_.contains(place) || *rounds_.best(place) < slow_rate_of_uplink;
  }

  // Adds the NIC as a suspect. Returns false if the GPU may be the cause, because its PCIe link is slow too.
  bool name_nic(const Place& place, std::size_t partners) {
    const double x = *rounds_.best(place);
    const bool pcie = table_.is_out(gpu_unit(rounds_.facts(place).rank), "pcie");
    suspect(pcie ? std::vector{Cause::slow_gpu, Cause::slow_nic} : std::vector{Cause::slow_nic}, {place}, x,
            fmt::format("{} of {} {} with each of {} partners{}{}", rail_text(place.second),
                        rounds_.hosts[place.first].name, slowness(x), partners, rounds_.way_of({place}),
                        pcie ? "; the PCIe link of its GPU is slow too" : ""),
            "look at this NIC: link rate and width, cable, error counters (ibdiagnet, ethtool -S), PCIe of the NIC");
    return !pcie;
  }

  void judge_between_leaves() {
    const LeafPaths slow_paths = slow_between_leaves(rounds_, explained_);
    scattered_paths_ = slow_paths.scattered;
    const auto groups = rounds_.leaves();
    for (const LeafPaths::Path& path : slow_paths.paths) {
      auto places = places_of(groups.at(path.leaves.first), path.rail);
      for (const Place& place : places_of(groups.at(path.leaves.second), path.rail)) places.push_back(place);
      const bool two = groups.size() == 2;
      leave_open([&] {
        suspect({two ? Cause::slow_uplink : Cause::slow_path}, places, path.x,
                fmt::format("between leaf {} and leaf {} {} {}", path.leaves.first, path.leaves.second,
                            rail_text(path.rail), slowness(path.x)),
                two ? "look at the uplinks of both leaves: with two leaves the faulty one is unknown"
                    : "look at the routes between these leaves: a spine link, ECMP or adaptive routing");
      });
      across_explained_.insert(places.begin(), places.end());
    }
    for (const auto& [leaf, rails] : slow_paths.uplinks) {
      std::vector<Place> places;
      std::vector<double> xs;
      std::vector<std::string> names;
      for (const auto& [rail, x] : rails) {
        for (const Place& place : places_of(groups.at(leaf), rail)) places.push_back(place);
        xs.push_back(x);
        names.push_back(std::to_string(rail));
      }
      const double x = median(std::move(xs));
      leave_open([&] {
        suspect(
            {Cause::slow_uplink}, places, x,
            fmt::format("leaf {} on rail {} {} to every other leaf, but not inside", leaf, joined(names), slowness(x)),
            "look at the uplinks of this leaf and its spine: links down, errors, ECMP or adaptive routing");
      });
      for (const auto& [rail, ignored] : rails) {
        for (const std::size_t host : groups.at(leaf)) across_explained_.insert({host, rail});
      }
    }
  }

  /// Adds the hosts that show the fault, although they are not its cause.
  template <class Say>
  void leave_open(const Say& say) {
    const auto before = explained_;
    say();
    explained_ = before;
  }

  // Judges pairs that were slow or silent once, although both ends were fast with other partners.
  void judge_single_pairs() {
    std::set<std::pair<std::size_t, std::size_t>> said;
    for (const auto& [place, values] : rounds_.at) {
      const std::size_t rail = place.second;
      if (explained_.contains(place)) continue;
      for (const Value& value : values) {
        if (value.confirms || value.rate >= slow_single_rate * rounds_.typical[rail] ||
            explained_.contains({value.partner, rail}))
          continue;
        if (value.across && (across_explained_.contains(place) || across_explained_.contains({value.partner, rail}))) {
          continue;
        }
        const auto pair = std::minmax(value.host, value.partner);
        if (!said.insert(pair).second) continue;
        const auto again = rounds_.repeated(value, rail);
        const bool silent = value.x <= 0;
        // Several pairs may share a path between leaf switches by chance. judge_between_leaves() finds a fault of the
        // path itself.
        const bool fails =
            silent ? !again || *again <= 0
                   : again && *again < slow_single_rate && !value.across && !rounds_.by_chance(value, rail, *again);
        if (!fails) {
          ++noted_;
          continue;
        }
        const double x = again.value_or(value.x);
        auto& d = suspect({Cause::slow_path}, {{pair.first, rail}, {pair.second, rail}}, x,
                          fmt::format("{} and {} {} on {}, but each is fast with other hosts{}",
                                      rounds_.hosts[pair.first].name, rounds_.hosts[pair.second].name,
                                      silent ? "do not answer each other" : "are slow with each other", rail_text(rail),
                                      again ? "; repeated" : ""),
                          "look at routes, firewall, access lists and switch ports between these two");
        d.place_count = 2;
        explained_.erase({pair.first, rail});
        explained_.erase({pair.second, rail});
      }
    }
  }

  // Judges AllReduce over all rails of two hosts whose single rails are fast with each other. This AllReduce depends on
  // NVLink, on the paths from GPUs to NICs and on NCCL's plan. The suspect is the pair, because one figure does not
  // show which end is slow.
  void judge_sums() {
    std::vector<double> inside;  // across leaf switches, a rail may share a port by chance
    for (const auto& [pair, sums] : rounds_.sums) {
      for (const Sum& sum : sums) {
        if (sum.rate > 0) all_sums_.push_back(sum.rate);
        if (sum.rate > 0 && !sum.confirms && rounds_.same_leaf(pair.first, pair.second)) inside.push_back(sum.rate);
      }
    }
    auto named = named_hosts();
    judge_silent_hosts(named);
    const double usual = inside.empty() ? 0 : median(std::move(inside));
    for (const auto& [pair, sums] : rounds_.sums) {
      if (!named.contains(pair.first) && !named.contains(pair.second)) judge_sum(pair, sums, usual);
    }
  }

  // Returns the hosts that a suspect explains.
  std::set<std::size_t> named_hosts() const {
    std::set<std::size_t> named;
    for (const Place& place : explained_) named.insert(place.first);
    for (const Diagnosis& d : out_.suspects) {  // two hosts that do not answer each other do not explain other hosts
      for (std::size_t host = 0; host < rounds_.hosts.size(); ++host) {
        const bool is =
            std::ranges::any_of(d.places, [&](const Culprit& place) { return place.host == rounds_.hosts[host].name; });
        if (is && d.percent >= 100) named.insert(host);
      }
    }
    return named;
  }

  // Finds hosts that stopped answering after the rounds of single rails.
  void judge_silent_hosts(std::set<std::size_t>& named) {
    std::map<std::size_t, std::set<std::size_t>> silent, answered;  // by host: its partners
    for (const auto& [pair, sums] : rounds_.sums) {
      auto& partners = std::ranges::any_of(sums, [](const Sum& sum) { return sum.rate > 0; }) ? answered : silent;
      partners[pair.first].insert(pair.second);
      partners[pair.second].insert(pair.first);
    }
    for (const auto& [host, partners] : silent) {
      if (partners.size() < 2 || answered.contains(host) || !named.insert(host).second) continue;
      only_host(suspect({Cause::slow_node}, {}, 0,
                        fmt::format("{} does not answer any of its partners in an AllReduce", rounds_.hosts[host].name),
                        "ping the host, and look at its console: it may be down"),
                host);
    }
  }

  void judge_sum(const PairRounds::Pair& pair, const std::vector<Sum>& sums, double usual) {
    const auto& [a, b] = pair;
    double best = 0, first = 0;
    bool again = false;
    std::vector<Evidence> evidence;
    for (const Sum& sum : sums) {
      best = std::max(best, sum.rate);
      if (!sum.confirms) first = std::max(first, sum.rate);
      again = again || sum.confirms;
      if (usual > 0) {
        evidence.push_back({sum.key, PairRounds::metric, Judgement::peers, sum.rate, usual,
                            100 * (1 - sum.rate / usual), std::nullopt});
      }
    }
    if (first > 0 && (!rounds_.same_leaf(a, b) || first >= slow_sum * usual)) return;
    if (best > 0 && (!again || best >= slow_sum * usual || !rounds_.is_below_scatter(best / usual))) {
      ++noted_;
      return;
    }
    if (best > 0 && (has_slow_ports(a) || has_slow_ports(b))) {
      ++explained_sums_;
      return;
    }
    const double x = best > 0 ? best / usual : 0;
    auto& d = suspect(
        {Cause::slow_path}, {}, x,
        fmt::format("{} and {} {} in an AllReduce over all rails, and {}{}", rounds_.hosts[a].name,
                    rounds_.hosts[b].name,
                    best > 0 ? fmt::format("are {:.0f} % slow", 100 * (1 - x)) : "do not answer each other",
                    rails_of(a, b), again ? "; repeated" : ""),
        "run both hosts with NCCL_DEBUG=INFO and compare rings, GPUDirect and NVLink with those of another pair");
    add_evidence(d, std::move(evidence));
    d.percent = 100 * (1 - x);
    d.part = {PartKind::path, rounds_.hosts[a].name + " > " + rounds_.hosts[b].name, ""};
    d.places = {host_culprit(rounds_.hosts[a].name), host_culprit(rounds_.hosts[b].name)};
    d.place_count = 2;
  }

  // True if all copies to or from a GPU of the host are slow, which also slows an AllReduce over all its GPUs.
  bool has_slow_ports(std::size_t host) const {
    return std::ranges::any_of(rounds_.hosts[host].ranks,
                               [&](int rank) { return rank >= 0 && table_.is_out(gpu_unit(rank), "p2p"); });
  }

  // Describes the rails of two hosts. None of the rails of the two hosts is slow by itself.
  std::string rails_of(std::size_t a, std::size_t b) const {
    std::size_t all = 0, answered = 0;
    for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
      if (!rounds_.has(a, rail) || !rounds_.has(b, rail)) continue;
      ++all;
      if (rounds_.best_rate({a, rail}) > 0 && rounds_.best_rate({b, rail}) > 0) ++answered;
    }
    if (answered == all) return "each rail is good";
    return answered == 0 ? "no single rail has a rate" : "each single rail with a rate is good";
  }

  // Removes suspects that are slow only while their ranks waited for cores. If the rates per core time blame another
  // part of the same hosts, as one NIC of a leaf switch, this part is a suspect instead.
  void acquit() {
    if (!others_) return;
    std::vector<Diagnosis> removed;
    std::erase_if(out_.suspects, [&](const Diagnosis& d) {
      if (std::ranges::any_of(*others_, [&](const Diagnosis& other) { return agree(d, other); })) return false;
      removed.push_back(d);
      return true;
    });
    for (const Diagnosis& other : *others_) {
      const auto meets = [&](const Diagnosis& d) { return overlap(d, other); };
      if (std::ranges::none_of(removed, meets) || std::ranges::any_of(out_.suspects, meets)) continue;
      std::erase_if(removed, meets);
      out_.suspects.push_back(other);
    }
    for (const Diagnosis& d : removed) acquitted_.push_back(part_text(d.part));
  }

  void conclude() {
    std::stable_sort(out_.suspects.begin(), out_.suspects.end(), [](const Diagnosis& a, const Diagnosis& b) {
      return std::pair(a.fails, a.percent.value_or(0)) > std::pair(b.fails, b.percent.value_or(0));
    });
    out_.judged = rounds_.hosts.size() >= min_hosts;
    const std::size_t scattered = out_.judged ? rounds_.count_within_scatter() : 0;
    const bool is_scattered = scattered + scattered_rails_ + scattered_paths_ + acquitted_.size() > 0;
    for (const Diagnosis& d : out_.suspects) out_.findings.push_back(finding_of(d));
    const bool is_slow = std::ranges::any_of(out_.findings, &Finding::counts);
    if (!is_slow && (out_.judged || !acquitted_.empty())) {
      // On CPUs that several ranks share, the scatter is expected.
      const bool is_open = is_scattered && rounds_.rows.front()->context->backend == Backend::cuda;
      out_.findings.push_back(pairs_finding(
          is_open ? Status::inconclusive : Status::pass,
          fmt::format("{} hosts, {} rails: {}", rounds_.hosts.size(), rounds_.rails,
                      !acquitted_.empty()      ? "no host, rail or path is slow except while ranks waited for cores"
                      : is_scattered           ? "no host, rail or path is slower than the scatter of the pairs"
                      : !out_.suspects.empty() ? "no NIC is slower than the slowest healthy NIC may be"
                      : explained_sums_ == 0   ? "all pairs are equally fast"
                                               : "only pairs with slow ports of a GPU are slow")));
    }
    out_.said = fmt::format("pairs of {} hosts on {} rails: {}", rounds_.hosts.size(), rounds_.rails,
                            out_.suspects.empty() ? "no outlier" : plural(out_.suspects.size(), "suspect"));
    if (!all_sums_.empty()) {
      out_.said += fmt::format("; AllReduce of two hosts {:.4g} GB/s at the median", median(all_sums_));
    }
    if (noted_ > 0) out_.said += fmt::format("; {} slow in one round only", plural(noted_, "pair"));
    if (scattered > 0) {
      out_.said +=
          fmt::format("; {} slower than others, but within the scatter of the pairs", plural(scattered, "NIC"));
    }
    if (!acquitted_.empty()) {
      out_.said += fmt::format("; {} not judged, because ranks waited for cores: {}",
                               plural(acquitted_.size(), "slow part"), joined(acquitted_));
    }
    if (scattered_rails_ > 0) {
      out_.said += fmt::format("; {} slower than others on all hosts, but within the scatter of the pairs",
                               plural(scattered_rails_, "rail"));
    }
    if (scattered_paths_ > 0) {
      out_.said += fmt::format("; {} between leaf switches slower than others, but within the scatter of the pairs",
                               plural(scattered_paths_, "path"));
    }
    if (explained_sums_ > 0) {
      out_.said += fmt::format("; {} slow because of the ports of a GPU", plural(explained_sums_, "pair"));
    }
  }

  const UnitTable& table_;
  const PairRounds rounds_;
  std::vector<double> all_sums_;
  std::set<Place> explained_, across_explained_;
  std::size_t noted_ = 0;
  std::size_t scattered_rails_ = 0;     // rails that are slow on all hosts, but not below the scatter
  std::size_t scattered_paths_ = 0;     // paths between leaf switches that are slow, but not below the scatter
  std::vector<std::string> acquitted_;  // suspects that are slow only while their ranks waited for cores
  std::optional<std::vector<Diagnosis>> others_;
  std::size_t explained_sums_ = 0;  // pairs of hosts that are slow because of the ports of a GPU
  FabricJudgement out_;
};

}  // namespace

FabricJudgement judge_fabric(const Benchmarks& benchmarks, const UnitTable& table,
                             const std::map<std::string, std::string>& leaves) {
  PairRounds rounds(benchmarks, leaves);
  const bool waited = rounds.waited_for_cores();
  const double scatter = rounds.scatter();
  FabricJudge judge(std::move(rounds), table);
  if (waited) {
    PairRounds per_core(benchmarks, leaves, PairRate::per_core_time);
    const bool cores_limit_rates = per_core.scatter() < max_scatter_per_core * scatter;
    if (cores_limit_rates) judge.require(FabricJudge(std::move(per_core), table).run().suspects);
  }
  return judge.run();
}

}  // namespace shakedown
