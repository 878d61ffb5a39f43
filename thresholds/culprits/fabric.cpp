// Decides what of a network is at fault. Longer than other files: the rules by which NIC, host, leaf, uplink, path and
// rail compete for the same evidence are read together.
#include "thresholds/culprits/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/culprits/pair_rounds.hpp"

namespace shakedown {
namespace {

constexpr double slow = PairRounds::slow;
/// One value has tails that the best of several has not.
constexpr double slow_once = 0.9, slow_behind_uplink = 0.93;
/// Of an AllReduce over all rails: the slowest of eight holds up all, and of some hundred pairs one has a rail that
/// pauses three times. What NCCL plans wrongly, or a link inside a host, costs more than this.
constexpr double slow_sum = 0.7;
/// So much of a leaf, or of a host's rails, is most of it.
constexpr double most_of_leaf = 0.6, most_of_rails = 0.75;
constexpr std::size_t least_of_leaf = 3;
/// Two hosts are one pair: nobody can tell its ends apart.
constexpr std::size_t least_hosts = 3;

class FabricJudge {
 public:
  FabricJudge(const Benchmarks& benchmarks, const UnitTable& table, const std::map<std::string, std::string>& leaves)
      : table_(table), rounds_(benchmarks, leaves) {}

  FabricJudgement run() {
    for (const Benchmark* benchmark : rounds_.rows) {
      for (const Row* row : benchmark->rows) {
        if (!row->wrong_ranks.empty()) note_wrong(benchmark->key, *row);
      }
    }
    note_unseen();
    if (rounds_.empty()) return std::move(out_);
    judge_rails();
    if (rounds_.hosts.size() >= least_hosts) {
      judge_leaves();
      judge_hosts();
      judge_uplinks();
      judge_nics();
    }
    judge_single_pairs();
    judge_sums();
    conclude();
    return std::move(out_);
  }

 private:
  using Value = PairRounds::Value;
  using Sum = PairRounds::Sum;
  using Place = PairRounds::Place;

  bool open(const Place& place) const { return rounds_.low(place) && !explained_.contains(place); }

  // --- suspects ---

  Diagnosis& suspect(std::vector<Cause> causes, const std::vector<Place>& places, double x, std::string detail,
                     std::string next) {
    Diagnosis d;
    d.causes = std::move(causes);
    d.part = part_of(d.causes.front(), places);
    d.place_count = places.size();
    d.percent = 100 * (1 - x);
    d.detail = std::move(detail);
    d.next = std::move(next);
    std::vector<Evidence> evidence;
    for (const auto& place : places) {
      explained_.insert(place);
      if (d.places.size() < max_offenders) d.places.push_back(culprit(rounds_.facts(place), rounds_.best_rate(place)));
      for (const Value& value : rounds_.at.at(place)) {
        if (value.x >= slow) continue;
        evidence.push_back({value.key, PairRounds::metric, Judgement::peers, value.rate,
                            rounds_.reference[place.second], 100 * (1 - value.x), std::nullopt});
      }
    }
    add_evidence(d, std::move(evidence));
    d.percent = 100 * (1 - x);
    out_.suspects.push_back(std::move(d));
    return out_.suspects.back();
  }

  /// The part that is slow where these NICs are. Without leaves on record a leaf, an uplink and a path have no name.
  Part part_of(Cause cause, const std::vector<Place>& places) const {
    if (places.empty() || cause == Cause::configuration) return {};
    const PairRounds::Host& host = rounds_.hosts[places.front().first];
    std::set<std::string> leaves, hosts;
    for (const Place& place : places) {
      leaves.insert(rounds_.hosts[place.first].leaf);
      hosts.insert(rounds_.hosts[place.first].name);
    }
    switch (cause) {
      case Cause::slow_nic: return {PartKind::nic, rail_text(places.front().second), host.name};
      case Cause::slow_node: return host_part(host.name);
      case Cause::slow_leaf: return {PartKind::leaf, host.leaf, ""};
      case Cause::slow_uplink: return {PartKind::uplink, joined(leaves, " > "), ""};
      case Cause::slow_path: return {PartKind::path, joined(hosts.size() == 2 ? hosts : leaves, " > "), ""};
      default: return gpu_part(rounds_.facts(places.front()));
    }
  }

  std::string rail_text(std::size_t rail) const { return "rail " + std::to_string(rail); }

  static std::string slowness(double x) {
    return x <= 0 ? "does not answer" : fmt::format("is {:.0f} % slow", 100 * (1 - x));
  }

  // Everybody on one rail against the other rails: no single NIC.
  void judge_rails() {
    if (rounds_.rails < 2) return;
    std::vector<double> known;
    for (const double r : rounds_.reference) {
      if (r > 0) known.push_back(r);
    }
    if (known.empty()) return;
    const double usual = known.size() > 2 ? median(known) : *std::max_element(known.begin(), known.end());
    for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
      const double x = rounds_.reference[rail] / usual;
      if (x >= slow) continue;
      std::vector<Place> places;
      for (std::size_t host = 0; host < rounds_.hosts.size(); ++host) {
        if (rounds_.at.contains({host, rail})) places.push_back({host, rail});
      }
      if (places.empty()) continue;
      const auto& hosts = rounds_.hosts;
      const bool two = hosts.size() == 2;  // both ends have what is wrong with one
      suspect(two ? std::vector{Cause::slow_nic, Cause::configuration} : std::vector{Cause::configuration}, places, x,
              fmt::format("{} {} {} against the other rails", rail_text(rail), slowness(x),
                          two ? "between " + hosts[0].name + " and " + hosts[1].name
                              : fmt::format("on all {} hosts", places.size())),
              "compare NCCL_IB_HCA, GID index, MTU and subnet of this rail's NICs with those of the others");
    }
  }

  void judge_leaves() {
    for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
      auto groups = rounds_.leaves();
      if (groups.size() == 1) groups.clear();  // then it is all hosts
      for (const auto& [leaf, members] : groups) {
        std::vector<Place> places;
        std::vector<double> xs;
        for (const std::size_t host : members) {
          if (!open({host, rail})) continue;
          places.push_back({host, rail});
          xs.push_back(*rounds_.best({host, rail}));
        }
        if (places.size() < least_of_leaf ||
            static_cast<double>(places.size()) < most_of_leaf * static_cast<double>(members.size())) {
          continue;
        }
        const double x = median(std::move(xs));
        suspect({Cause::slow_leaf}, places, x,
                fmt::format("leaf {} on {} {} for {} of its {} hosts, inside the leaf too", leaf, rail_text(rail),
                            slowness(x), places.size(), members.size()),
                "look at the ports, errors and firmware of this leaf switch");
      }
    }
  }

  void judge_hosts() {
    for (std::size_t host = 0; host < rounds_.hosts.size(); ++host) {
      if (rounds_.fell_silent(host)) {
        std::vector<Place> rails;
        for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
          if (rounds_.at.contains({host, rail})) rails.push_back({host, rail});
        }
        auto& d = suspect({Cause::slow_node}, rails, 0,
                          fmt::format("{} does not answer, one partner after another", rounds_.hosts[host].name),
                          "is it up? ping it, and look at its console");
        only_host(d, host);
        continue;
      }
      std::vector<Place> places;
      std::vector<double> xs;
      std::size_t all = 0;
      for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
        if (rounds_.best({host, rail})) ++all;
        if (!open({host, rail})) continue;
        places.push_back({host, rail});
        xs.push_back(*rounds_.best({host, rail}));
      }
      const bool alone = rounds_.rails == 1 && xs.size() == 1 && xs.front() <= 0;  // its only rail is silent
      if (!alone &&
          (places.size() < 2 || static_cast<double>(places.size()) < most_of_rails * static_cast<double>(all)))
        continue;
      const double x = median(std::move(xs));
      auto& d = suspect({Cause::slow_node}, places, x,
                        fmt::format("{} {} on {} of {} rails with every partner{}", rounds_.hosts[host].name,
                                    slowness(x), places.size(), all, rounds_.way_of(places)),
                        x <= 0 ? "is it up? ping it, and look at its console"
                               : "compare PCIe, IOMMU, ACS and CPU governor of this host with those of others");
      only_host(d, host);
    }
  }

  Culprit whole(std::size_t host) const {
    return {std::nullopt, rounds_.hosts[host].name, std::nullopt, std::nullopt, std::nullopt};
  }
  void only_host(Diagnosis& d, std::size_t host) const {
    d.part = host_part(rounds_.hosts[host].name);
    d.places = {whole(host)};
    d.place_count = 1;
  }

  bool pcie_is_slow(int rank) const {
    return std::ranges::any_of(table_.columns, [&](const Column& column) {
      const Cell* cell = column.name.family() == "pcie" ? column.find(gpu_unit(rank)) : nullptr;
      return cell != nullptr && cell->out;
    });
  }

  void judge_nics() {
    // Without a topology many hosts that are slow on one rail may share a leaf that nobody named.
    const bool known = rounds_.leaves().size() > 0;
    for (std::size_t rail = 0; rail < rounds_.rails && !known; ++rail) {
      std::vector<Place> places;
      std::vector<double> xs;
      for (std::size_t host = 0; host < rounds_.hosts.size(); ++host) {
        if (!open({host, rail})) continue;
        places.push_back({host, rail});
        xs.push_back(*rounds_.best({host, rail}));
      }
      if (places.size() < 2 * least_of_leaf) continue;
      const double x = median(std::move(xs));
      suspect({Cause::slow_leaf, Cause::slow_uplink}, places, x,
              fmt::format("{} hosts on {}: the middle one {}; hosts of one leaf, perhaps", places.size(),
                          rail_text(rail), slowness(x)),
              "say which host is under which leaf (topology in the site file), and measure pairs again");
    }
    for (const auto& [place, values] : rounds_.at) {
      if (!open(place)) continue;
      const double x = *rounds_.best(place);
      // The reference is the best of several rounds, 2 % above the usual rate: of 8,000 NICs one may have no such
      // round by chance. What was slow beside the usual rate was measured again.
      const bool again = std::ranges::any_of(values, &Value::confirms);
      if (!again && rounds_.best_rate(place) >= slow * rounds_.typical[place.second]) continue;
      // Half of its rounds are slow for its uplink: the best of the others scatters more.
      if (across_explained_.contains(place) && x >= slow_behind_uplink) continue;
      const int rank = rounds_.facts(place).rank;
      const bool pcie = pcie_is_slow(rank);
      suspect(pcie ? std::vector{Cause::slow_gpu, Cause::slow_nic} : std::vector{Cause::slow_nic}, {place}, x,
              fmt::format("{} of {} {} with each of {} partners{}{}", rail_text(place.second),
                          rounds_.hosts[place.first].name, slowness(x), values.size(), rounds_.way_of({place}),
                          pcie ? "; its GPU's PCIe is slow too" : ""),
              "look at this NIC: link rate and width, cable, error counters (ibdiagnet, ethtool -S), PCIe of the NIC");
    }
  }

  // Values that no end explains.
  bool innocent(const Value& value, std::size_t rail) const {
    return !explained_.contains({value.host, rail}) && !explained_.contains({value.partner, rail});
  }

  void judge_uplinks() {
    std::vector<double> all;  // across, of all rails
    for (const auto& [place, values] : rounds_.at) {
      for (const Value& value : values) {
        if (value.across && !value.confirms && innocent(value, place.second)) all.push_back(value.rate);
      }
    }
    const auto groups = rounds_.leaves();
    if (all.size() < least_of_leaf || groups.size() < 2) return;
    // Of three leaves one bad uplink is in two pairs of leaves of three: the reference is the upper quartile's side.
    const double usual = quantile(std::move(all), groups.size() > 3 ? 0.5 : 0.75);
    std::map<std::string, std::vector<std::pair<std::size_t, double>>> uplinks;  // leaf -> rails, x
    for (std::size_t rail = 0; rail < rounds_.rails; ++rail) {
      std::map<std::pair<std::string, std::string>, std::vector<double>> between;
      for (std::size_t host = 0; host < rounds_.hosts.size(); ++host) {
        const auto found = rounds_.at.find({host, rail});
        if (found == rounds_.at.end()) continue;
        for (const Value& value : found->second) {
          const auto &a = rounds_.hosts[host].leaf, &b = rounds_.hosts[value.partner].leaf;
          if (value.confirms || a >= b || !innocent(value, rail)) continue;
          between[{a, b}].push_back(value.rate / usual);
        }
      }
      std::erase_if(between, [](const auto& entry) { return entry.second.size() < least_of_leaf; });
      std::map<std::pair<std::string, std::string>, double> x;
      for (auto& [pair, values] : between) x[pair] = median(std::move(values));
      // The leaf that explains most, and then the next.
      for (;;) {
        std::map<std::string, std::pair<int, int>> count;  // slow, all
        for (const auto& [pair, value] : x) {
          for (const auto& leaf : {pair.first, pair.second}) {
            count[leaf].first += value < slow ? 1 : 0;
            ++count[leaf].second;
          }
        }
        const auto most = std::max_element(
            count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
        if (most == count.end() || most->second.first < 2 || most->second.first < most->second.second) break;
        std::vector<double> xs;
        for (const auto& [pair, value] : x) {
          if (pair.first == most->first || pair.second == most->first) xs.push_back(value);
        }
        uplinks[most->first].emplace_back(rail, median(std::move(xs)));
        std::erase_if(x, [&](const auto& entry) {
          return entry.first.first == most->first || entry.first.second == most->first;
        });
      }
      for (const auto& [pair, value] : x) {
        if (value >= slow) continue;
        path(pair, rail, value, groups);
      }
    }
    for (const auto& [leaf, rails] : uplinks) {
      std::vector<Place> places;
      std::vector<double> xs;
      std::vector<std::string> names;
      for (const auto& [rail, x] : rails) {
        for (const std::size_t host : groups.at(leaf)) {
          if (rounds_.at.contains({host, rail})) places.push_back({host, rail});
        }
        xs.push_back(x);
        names.push_back(std::to_string(rail));
      }
      const double x = median(std::move(xs));
      leave_open([&] {
        suspect(
            {Cause::slow_uplink}, places, x,
            fmt::format("leaf {} on rail {} {} to every other leaf, and not inside", leaf, joined(names), slowness(x)),
            "look at the uplinks of this leaf and its spine: links down, errors, ECMP or adaptive routing");
      });
      for (const auto& [rail, ignored] : rails) {
        for (const std::size_t host : groups.at(leaf)) across_explained_.insert({host, rail});
      }
    }
  }

  void path(const std::pair<std::string, std::string>& pair, std::size_t rail, double x,
            const std::map<std::string, std::vector<std::size_t>>& groups) {
    std::vector<Place> places;
    for (const auto& leaf : {pair.first, pair.second}) {
      for (const std::size_t host : groups.at(leaf)) {
        if (rounds_.at.contains({host, rail})) places.push_back({host, rail});
      }
    }
    leave_open([&] {
      suspect(groups.size() == 2 ? std::vector{Cause::slow_uplink} : std::vector{Cause::slow_path}, places, x,
              fmt::format("between leaf {} and leaf {} {} {}", pair.first, pair.second, rail_text(rail), slowness(x)),
              groups.size() == 2 ? "look at the uplinks of both leaves: with two leaves nobody can tell which"
                                 : "look at the routes between these leaves: a spine link, ECMP or adaptive routing");
    });
    for (const Place& place : places) across_explained_.insert(place);
  }

  /// The hosts stand where the fault shows, and are none themselves.
  template <class Say>
  void leave_open(const Say& say) {
    const auto before = explained_;
    say();
    explained_ = before;
  }

  // What was slow or silent once, between two ends that are good with others.
  void judge_single_pairs() {
    std::set<std::pair<std::size_t, std::size_t>> said;
    for (const auto& [place, values] : rounds_.at) {
      const std::size_t rail = place.second;
      if (explained_.contains(place)) continue;
      for (const Value& value : values) {
        if (value.confirms || value.rate >= slow_once * rounds_.typical[rail] ||
            explained_.contains({value.partner, rail}))
          continue;
        if (value.across && (across_explained_.contains(place) || across_explained_.contains({value.partner, rail}))) {
          continue;
        }
        const auto pair = std::minmax(value.host, value.partner);
        if (!said.insert(pair).second) continue;
        const auto again = rounds_.repeated(value, rail);
        const bool silent = value.x <= 0;
        // A path between leaves is shared by chance; what is wrong with it for all shows between the leaves.
        const bool fails =
            silent ? !again || *again <= 0
                   : again && *again < slow_once && !value.across && !rounds_.by_chance(value, rail, *again);
        if (!fails) {
          ++noted_;
          continue;
        }
        const double x = again.value_or(value.x);
        auto& d = suspect({Cause::slow_path}, {{pair.first, rail}, {pair.second, rail}}, x,
                          fmt::format("{} and {} {} on {}, and each is good with others{}",
                                      rounds_.hosts[pair.first].name, rounds_.hosts[pair.second].name,
                                      silent ? "do not answer each other" : "are slow with each other", rail_text(rail),
                                      again ? "; repeated" : ""),
                          "look at what lies between these two: routes, firewall, access lists, the switch port pair");
        d.place_count = 2;
        explained_.erase({pair.first, rail});
        explained_.erase({pair.second, rail});
      }
    }
  }

  // AllReduce over all rails, of two hosts that are good with each other rail by rail: NVLink, the paths from GPUs to
  // NICs and NCCL's plan work together there. It is said of the pair: one figure tells no end from the other.
  void judge_sums() {
    std::vector<double> inside;  // leaves: across, one rail of all shares a port by chance
    std::map<std::size_t, std::set<std::size_t>> silent, answered;  // with whom
    for (const auto& [pair, sums] : rounds_.sums) {
      const bool any = std::any_of(sums.begin(), sums.end(), [](const Sum& sum) { return sum.rate > 0; });
      (any ? answered : silent)[pair.first].insert(pair.second);
      (any ? answered : silent)[pair.second].insert(pair.first);
      for (const Sum& sum : sums) {
        if (sum.rate > 0) all_sums_.push_back(sum.rate);
        if (sum.rate > 0 && !sum.confirms && rounds_.same_leaf(pair.first, pair.second)) inside.push_back(sum.rate);
      }
    }
    std::set<std::size_t> named;
    for (const Place& place : explained_) named.insert(place.first);
    for (const Diagnosis& d : out_.suspects) {  // of two that do not answer each other no place is explained
      for (std::size_t host = 0; host < rounds_.hosts.size(); ++host) {
        const bool is = std::any_of(d.places.begin(), d.places.end(),
                                    [&](const Culprit& place) { return place.host == rounds_.hosts[host].name; });
        if (is && d.percent >= 100) named.insert(host);
      }
    }
    // Died since the rounds of single rails.
    for (const auto& [host, partners] : silent) {
      if (partners.size() < 2 || answered.contains(host) || !named.insert(host).second) continue;
      only_host(suspect({Cause::slow_node}, {}, 0,
                        fmt::format("{} does not answer in an AllReduce, one partner after another",
                                    rounds_.hosts[host].name),
                        "is it up? ping it, and look at its console"),
                host);
    }
    const double usual = inside.empty() ? 0 : median(std::move(inside));
    for (const auto& [pair, sums] : rounds_.sums) {
      const auto& [a, b] = pair;
      if (named.contains(a) || named.contains(b)) continue;
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
      const bool low = first <= 0 || (rounds_.same_leaf(a, b) && first < slow_sum * usual);
      if (!low) continue;
      if (best > 0 && (!again || best >= slow_sum * usual)) {
        ++noted_;
        continue;
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
      d.places = {whole(a), whole(b)};
      d.place_count = 2;
    }
  }

  // Of two hosts that no single rail accuses.
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

  // --- words ---

  void note_wrong(const Key& key, const Row& row) {
    Finding finding;
    classify(finding, Code::wrong_data);
    finding.key = key;
    finding.status = Status::fail;
    finding.judgement = Judgement::peers;
    finding.wrong_ranks = row.wrong_ranks;
    finding.detail = "wrong data between hosts, seen at " + plural(row.wrong_ranks.size(), "rank");
    for (const int rank : row.wrong_ranks) {
      if (static_cast<std::size_t>(rank) >= rounds_.context->ranks.size()) continue;
      if (finding.offenders.size() < max_offenders) {
        finding.offenders.push_back(culprit(rounds_.context->ranks[static_cast<std::size_t>(rank)]));
      }
    }
    finding.offender_count = row.wrong_ranks.size();
    if (!finding.offenders.empty()) {
      finding.worst = finding.offenders.front();
      finding.part = shakedown::part_of(key, PairRounds::metric, *rounds_.context, *finding.worst->rank);
    }
    finding.next = "measure pairs again; if it repeats, swap the NIC or the cable of this rank";
    out_.wrong_data.push_back(std::move(finding));
  }

  // Who was slow in no round because it was in none is not good.
  void note_unseen() {
    const auto places = rounds_.unseen();
    if (places.empty()) return;
    Finding finding = plain(
        Status::missing, plural(places.size(), "rank") + " with a partner in no round: nothing is known of the NICs");
    for (const Place& place : places) {
      if (finding.offenders.size() < max_offenders) finding.offenders.push_back(culprit(rounds_.facts(place)));
    }
    classify(finding, Code::not_measured);
    finding.part = part_of(Cause::slow_nic, places);
    finding.offender_count = places.size();
    finding.worst = finding.offenders.front();
    finding.next = measure_command(finding.key, rounds_.context->world_size);
    out_.findings.push_back(std::move(finding));
  }

  void conclude() {
    std::stable_sort(out_.suspects.begin(), out_.suspects.end(), [](const Diagnosis& a, const Diagnosis& b) {
      return a.percent.value_or(0) > b.percent.value_or(0);
    });
    out_.judged = rounds_.hosts.size() >= least_hosts;
    for (const Diagnosis& d : out_.suspects) {
      Finding finding = plain(Status::fail, causes_text(d) + ": " + d.detail);
      classify(finding, Code::pairs, d.evidence_count);
      finding.part = d.part;
      finding.offenders = d.places;
      finding.offender_count = d.place_count;
      if (!d.places.empty()) finding.worst = d.places.front();
      finding.next = d.next;
      out_.findings.push_back(std::move(finding));
    }
    if (out_.findings.empty() && out_.judged) {
      out_.findings.push_back(
          plain(Status::pass, fmt::format("{} hosts, {} rails: all pairs alike", rounds_.hosts.size(), rounds_.rails)));
    }
    out_.said = fmt::format("pairs of {} hosts on {} rails: {}", rounds_.hosts.size(), rounds_.rails,
                            out_.suspects.empty() ? "nobody stands out" : plural(out_.suspects.size(), "suspect"));
    if (!all_sums_.empty()) {
      out_.said += fmt::format("; AllReduce of two hosts {:.4g} GB/s at the median", median(all_sums_));
    }
    if (noted_ > 0) out_.said += fmt::format("; {} slow in one round only", plural(noted_, "pair"));
  }

  static Finding plain(Status status, std::string detail) {
    Finding finding;
    classify(finding, Code::pairs);
    finding.key = Key("pairs");
    finding.status = status;
    finding.judgement = Judgement::peers;
    finding.detail = std::move(detail);
    finding.source = "the other hosts of this run";
    return finding;
  }

  const UnitTable& table_;
  const PairRounds rounds_;
  std::vector<double> all_sums_;
  std::set<Place> explained_, across_explained_;
  std::size_t noted_ = 0;
  FabricJudgement out_;
};

}  // namespace

FabricJudgement judge_fabric(const Benchmarks& benchmarks, const UnitTable& table,
                             const std::map<std::string, std::string>& leaves) {
  return FabricJudge(benchmarks, table, leaves).run();
}

}  // namespace shakedown
