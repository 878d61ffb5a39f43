// Decides what of a network is at fault. Longer than other files: the rules by which NIC, host, leaf, uplink, path and
// rail compete for the same evidence are read together.
#include "thresholds/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/metrics.hpp"

namespace shakedown {
namespace {

constexpr const char* metric = "busbw_gb_per_s";
/// A rate below this part of the others' is slow: three times what the best of three rounds scatters at 1.5 % noise,
/// and half of the least fault that is worth a person's time, 10 %.
constexpr double slow = 0.95;
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

/// What one rank had in one round.
struct Value {
  std::size_t host = 0, partner = 0;
  double x = 0;  // over the rail's reference; 0: no answer
  double rate = 0;
  std::string key;
  bool across = false;  // or where nobody knows
  bool confirms = false;
};

class FabricJudge {
 public:
  FabricJudge(const Benchmarks& benchmarks, const PeerComparison& peers,
              const std::map<std::string, std::string>& leaves)
      : peers_(peers) {
    for (const auto& [key, benchmark] : benchmarks) {
      if (family_of(key) == "pairs" && benchmark.waiver() == nullptr) rows_.push_back(&benchmark);
    }
    if (rows_.empty()) return;
    context_ = rows_.front()->context;
    std::map<std::string, std::size_t> index;
    for (const RankFacts& rank : context_->ranks) {
      const auto [found, fresh] = index.emplace(rank.host, hosts_.size());
      if (fresh) hosts_.push_back({rank.host, "", {}});
      host_of_.push_back(found->second);
      rail_of_.push_back(static_cast<std::size_t>(rank.local_rank));
      auto& ranks = hosts_[found->second].ranks;
      ranks.resize(std::max(ranks.size(), rail_of_.back() + 1), -1);
      ranks[rail_of_.back()] = rank.rank;
      rails_ = std::max(rails_, rail_of_.back() + 1);
    }
    for (const HostFacts& facts : context_->inventory) {
      const auto found = index.find(facts.host);
      if (found == index.end()) continue;
      const auto said = leaves.find(facts.host);
      hosts_[found->second].leaf = facts.leaf.value_or(said == leaves.end() ? "" : said->second);
    }
  }

  FabricJudgement run() {
    if (context_ == nullptr || !read()) return std::move(out_);
    judge_rails();
    if (hosts_.size() >= least_hosts) {
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
  struct Host {
    std::string name, leaf;
    std::vector<int> ranks;  // by rail
  };
  using Place = std::pair<std::size_t, std::size_t>;  // host, rail
  using Pair = std::pair<std::size_t, std::size_t>;   // of hosts

  /// AllReduce over all rails of both hosts, in one row.
  struct Sum {
    std::string key;
    double rate = 0;  // 0: no answer
    bool confirms = false;
  };

  // --- reading ---

  bool read() {
    for (const Benchmark* benchmark : rows_) {
      const auto values = rank_values(*benchmark, metric), partners = rank_values(*benchmark, "partner");
      for (const Row* row : benchmark->rows) {
        if (!row->wrong_ranks.empty()) note_wrong(benchmark->key, *row);
      }
      if (partners.size() != host_of_.size()) continue;
      const auto direction = key_part(benchmark->key, "dir");
      const bool confirms = !key_part(benchmark->key, "confirm").empty();
      for (std::size_t rank = 0; rank < partners.size(); ++rank) {
        if (!partners[rank] || *partners[rank] < 0 || *partners[rank] >= static_cast<double>(host_of_.size())) continue;
        Value value;
        value.host = host_of_[rank];
        value.partner = host_of_[static_cast<std::size_t>(*partners[rank])];
        value.rate = rank < values.size() ? values[rank].value_or(0) : 0;
        value.key = benchmark->key;
        value.across = !same_leaf(value.host, value.partner);
        value.confirms = confirms;
        if (key_part(benchmark->key, "op") == "allreduce") {
          auto& sums = sums_[std::minmax(value.host, value.partner)];
          const bool known =
              std::any_of(sums.begin(), sums.end(), [&](const Sum& sum) { return sum.key == value.key; });
          if (!known) sums.push_back({value.key, value.rate, confirms});
          continue;
        }
        const Place place{value.host, rail_of_[rank]};
        if (direction == "out") out_rate_[place].push_back(value.rate);
        if (direction == "in") in_rate_[place].push_back(value.rate);
        if (direction.empty() || direction == "both") at_[place].push_back(value);
      }
    }
    if (at_.empty() && sums_.empty()) return false;
    // The reference of a rail: what hosts reach at their best, in the middle of them.
    for (std::size_t rail = 0; rail < rails_; ++rail) {
      std::vector<double> bests;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        const double best = best_rate({host, rail});
        if (best > 0) bests.push_back(best);
      }
      reference_.push_back(bests.empty() ? 0 : median(std::move(bests)));
      std::vector<double> all;
      for (const auto& [place, values] : at_) {
        for (const Value& value : values) {
          if (place.second == rail && value.rate > 0) all.push_back(value.rate);
        }
      }
      typical_.push_back(all.empty() ? 0 : median(std::move(all)));
    }
    for (auto& [place, values] : at_) {
      for (Value& value : values) value.x = reference_[place.second] > 0 ? value.rate / reference_[place.second] : 0;
    }
    return true;
  }

  bool same_leaf(std::size_t a, std::size_t b) const {
    return !hosts_[a].leaf.empty() && hosts_[a].leaf == hosts_[b].leaf;
  }

  double best_rate(const Place& place) const {
    double best = 0;
    const auto found = at_.find(place);
    if (found == at_.end()) return 0;
    for (const Value& value : found->second) best = std::max(best, value.rate);
    return best;
  }

  /// The best of all rounds; nothing without any.
  std::optional<double> best(const Place& place) const {
    const auto found = at_.find(place);
    if (found == at_.end() || reference_[place.second] <= 0) return std::nullopt;
    return best_rate(place) / reference_[place.second];
  }
  bool low(const Place& place) const {
    const auto x = best(place);
    return x && *x < slow;
  }
  bool open(const Place& place) const { return low(place) && !explained_.contains(place); }

  // --- suspects ---

  Diagnosis& suspect(std::vector<Cause> causes, const std::vector<Place>& places, double x, std::string detail,
                     std::string next) {
    Diagnosis d;
    d.causes = std::move(causes);
    d.place_count = places.size();
    d.percent = 100 * (1 - x);
    d.detail = std::move(detail);
    d.next = std::move(next);
    std::vector<Evidence> evidence;
    for (const auto& place : places) {
      explained_.insert(place);
      if (d.places.size() < max_offenders) d.places.push_back(culprit(facts(place), best_rate(place)));
      for (const Value& value : at_.at(place)) {
        if (value.x >= slow) continue;
        evidence.push_back({value.key, metric, Judgement::peers, value.rate, reference_[place.second],
                            100 * (1 - value.x), std::nullopt});
      }
    }
    add_evidence(d, std::move(evidence));
    d.percent = 100 * (1 - x);
    out_.suspects.push_back(std::move(d));
    return out_.suspects.back();
  }

  const RankFacts& facts(const Place& place) const {
    return context_->ranks[static_cast<std::size_t>(hosts_[place.first].ranks[place.second])];
  }

  std::string rail_text(std::size_t rail) const { return "rail " + std::to_string(rail); }

  static std::string slowness(double x) {
    return x <= 0 ? "does not answer" : fmt::format("is {:.0f} % slow", 100 * (1 - x));
  }

  // Everybody on one rail against the other rails: no single NIC.
  void judge_rails() {
    if (rails_ < 2) return;
    std::vector<double> known;
    for (const double r : reference_) {
      if (r > 0) known.push_back(r);
    }
    if (known.empty()) return;
    const double usual = known.size() > 2 ? median(known) : *std::max_element(known.begin(), known.end());
    for (std::size_t rail = 0; rail < rails_; ++rail) {
      const double x = reference_[rail] / usual;
      if (x >= slow) continue;
      std::vector<Place> places;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        if (at_.contains({host, rail})) places.push_back({host, rail});
      }
      if (places.empty()) continue;
      auto& d = suspect(
          {Cause::configuration}, places, x,
          fmt::format("{} {} on all {} hosts against the other rails", rail_text(rail), slowness(x), places.size()),
          "compare NCCL_IB_HCA, GID index, MTU and subnet of this rail's NICs with those of the others");
      if (hosts_.size() == 2) d.causes = {Cause::slow_nic, Cause::configuration};
    }
  }

  std::map<std::string, std::vector<std::size_t>> leaves() const {
    std::map<std::string, std::vector<std::size_t>> leaves;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      if (!hosts_[host].leaf.empty()) leaves[hosts_[host].leaf].push_back(host);
    }
    return leaves;
  }

  void judge_leaves() {
    for (std::size_t rail = 0; rail < rails_; ++rail) {
      auto groups = leaves();
      if (groups.size() == 1) groups.clear();  // then it is all hosts
      for (const auto& [leaf, members] : groups) {
        std::vector<Place> places;
        std::vector<double> xs;
        for (const std::size_t host : members) {
          if (!open({host, rail})) continue;
          places.push_back({host, rail});
          xs.push_back(*best({host, rail}));
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

  // Died while others went on: silent with one partner after another, however good it was before.
  bool fell_silent(std::size_t host) const {
    std::size_t silent = 0, all = 0;
    std::set<std::size_t> partners;
    for (std::size_t rail = 0; rail < rails_; ++rail) {
      const auto found = at_.find({host, rail});
      if (found == at_.end()) continue;
      for (const Value& value : found->second) {
        ++all;
        if (value.rate > 0) continue;
        ++silent;
        partners.insert(value.partner);
      }
    }
    return partners.size() > 1 && 2 * silent >= all;
  }

  void judge_hosts() {
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      if (fell_silent(host)) {
        std::vector<Place> rails;
        for (std::size_t rail = 0; rail < rails_; ++rail) {
          if (at_.contains({host, rail})) rails.push_back({host, rail});
        }
        auto& d = suspect({Cause::slow_node}, rails, 0,
                          fmt::format("{} does not answer, one partner after another", hosts_[host].name),
                          "is it up? ping it, and look at its console");
        only_host(d, host);
        continue;
      }
      std::vector<Place> places;
      std::vector<double> xs;
      std::size_t all = 0;
      for (std::size_t rail = 0; rail < rails_; ++rail) {
        if (best({host, rail})) ++all;
        if (!open({host, rail})) continue;
        places.push_back({host, rail});
        xs.push_back(*best({host, rail}));
      }
      const bool alone = rails_ == 1 && xs.size() == 1 && xs.front() <= 0;  // its only rail is silent
      if (!alone &&
          (places.size() < 2 || static_cast<double>(places.size()) < most_of_rails * static_cast<double>(all)))
        continue;
      const double x = median(std::move(xs));
      auto& d = suspect({Cause::slow_node}, places, x,
                        fmt::format("{} {} on {} of {} rails with every partner{}", hosts_[host].name, slowness(x),
                                    places.size(), all, way_of(places)),
                        x <= 0 ? "is it up? ping it, and look at its console"
                               : "compare PCIe, IOMMU, ACS and CPU governor of this host with those of others");
      only_host(d, host);
    }
  }

  Culprit whole(std::size_t host) const {
    return {std::nullopt, hosts_[host].name, std::nullopt, std::nullopt, std::nullopt};
  }
  void only_host(Diagnosis& d, std::size_t host) const {
    d.places = {whole(host)};
    d.place_count = 1;
  }

  /// One direction only, where it was measured again.
  std::string way_of(const std::vector<Place>& places) const {
    std::vector<double> ratio;
    for (const Place& place : places) {
      const auto out = out_rate_.find(place), in = in_rate_.find(place);
      if (out == out_rate_.end() || in == in_rate_.end()) continue;
      const double sent = *std::max_element(out->second.begin(), out->second.end());
      const double received = *std::max_element(in->second.begin(), in->second.end());
      if (received > 0 && sent > 0) ratio.push_back(sent / received);
    }
    if (ratio.empty()) return "";
    const double middle = median(std::move(ratio));
    return middle < slow ? ", sending only" : middle > 1 / slow ? ", receiving only" : ", both ways";
  }

  bool pcie_is_slow(int rank) const {
    for (const PeerGroup& group : peers_.groups) {
      const bool pcie = std::any_of(group.rows.begin(), group.rows.end(),
                                    [&](std::size_t row) { return family_of(peers_.comparisons[row].key) == "pcie"; });
      if (!pcie) continue;
      for (const auto& unit : group.units) {
        if (unit.rank == rank && unit.out) return true;
      }
    }
    return false;
  }

  void judge_nics() {
    // Without a topology many hosts that are slow on one rail may share a leaf that nobody named.
    const bool known = leaves().size() > 0;
    for (std::size_t rail = 0; rail < rails_ && !known; ++rail) {
      std::vector<Place> places;
      std::vector<double> xs;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        if (!open({host, rail})) continue;
        places.push_back({host, rail});
        xs.push_back(*best({host, rail}));
      }
      if (places.size() < 2 * least_of_leaf) continue;
      const double x = median(std::move(xs));
      suspect({Cause::slow_leaf, Cause::slow_uplink}, places, x,
              fmt::format("{} hosts on {}: the middle one {}; hosts of one leaf, perhaps", places.size(),
                          rail_text(rail), slowness(x)),
              "say which host is under which leaf (topology in the site file), and measure pairs again");
    }
    for (const auto& [place, values] : at_) {
      if (!open(place)) continue;
      const double x = *best(place);
      // The reference is the best of several rounds, 2 % above the middle of all: of 8,000 NICs one may have no such
      // round by chance. What was slow beside the middle was measured again.
      const bool again = std::any_of(values.begin(), values.end(), [](const Value& value) { return value.confirms; });
      if (!again && best_rate(place) >= slow * typical_[place.second]) continue;
      // Half of its rounds are slow for its uplink: the best of the others scatters more.
      if (across_explained_.contains(place) && x >= slow_behind_uplink) continue;
      const int rank = facts(place).rank;
      const bool pcie = pcie_is_slow(rank);
      suspect(pcie ? std::vector{Cause::slow_gpu, Cause::slow_nic} : std::vector{Cause::slow_nic}, {place}, x,
              fmt::format("{} of {} {} with each of {} partners{}{}", rail_text(place.second), hosts_[place.first].name,
                          slowness(x), values.size(), way_of({place}), pcie ? "; its GPU's PCIe is slow too" : ""),
              "look at this NIC: link rate and width, cable, error counters (ibdiagnet, ethtool -S), PCIe of the NIC");
    }
  }

  // Values that no end explains.
  bool innocent(const Value& value, std::size_t rail) const {
    return !explained_.contains({value.host, rail}) && !explained_.contains({value.partner, rail});
  }

  void judge_uplinks() {
    std::vector<double> all;  // across, of all rails
    for (const auto& [place, values] : at_) {
      for (const Value& value : values) {
        if (value.across && !value.confirms && innocent(value, place.second)) all.push_back(value.rate);
      }
    }
    const auto groups = leaves();
    if (all.size() < least_of_leaf || groups.size() < 2) return;
    // Of three leaves one bad uplink is in two pairs of leaves of three: the reference is the upper quartile's side.
    const double usual = quantile(std::move(all), groups.size() > 3 ? 0.5 : 0.75);
    std::map<std::string, std::vector<std::pair<std::size_t, double>>> uplinks;  // leaf -> rails, x
    for (std::size_t rail = 0; rail < rails_; ++rail) {
      std::map<std::pair<std::string, std::string>, std::vector<double>> between;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        const auto found = at_.find({host, rail});
        if (found == at_.end()) continue;
        for (const Value& value : found->second) {
          const auto &a = hosts_[host].leaf, &b = hosts_[value.partner].leaf;
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
          if (at_.contains({host, rail})) places.push_back({host, rail});
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
        if (at_.contains({host, rail})) places.push_back({host, rail});
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
    for (const auto& [place, values] : at_) {
      const std::size_t rail = place.second;
      if (explained_.contains(place)) continue;
      for (const Value& value : values) {
        if (value.confirms || value.rate >= slow_once * typical_[rail] || explained_.contains({value.partner, rail}))
          continue;
        if (value.across && (across_explained_.contains(place) || across_explained_.contains({value.partner, rail}))) {
          continue;
        }
        const auto pair = std::minmax(value.host, value.partner);
        if (!said.insert(pair).second) continue;
        const auto again = repeated(value, rail);
        const bool silent = value.x <= 0;
        // A path between leaves is shared by chance; what is wrong with it for all shows between the leaves.
        const bool fails = silent ? !again || *again <= 0
                                  : again && *again < slow_once && !value.across && !by_chance(value, rail, *again);
        if (!fails) {
          ++noted_;
          continue;
        }
        const double x = again.value_or(value.x);
        auto& d = suspect(
            {Cause::slow_path}, {{pair.first, rail}, {pair.second, rail}}, x,
            fmt::format("{} and {} {} on {}, and each is good with others{}", hosts_[pair.first].name,
                        hosts_[pair.second].name, silent ? "do not answer each other" : "are slow with each other",
                        rail_text(rail), again ? "; repeated" : ""),
            "look at what lies between these two: routes, firewall, access lists, the switch port pair");
        d.place_count = 2;
        explained_.erase({pair.first, rail});
        explained_.erase({pair.second, rail});
      }
    }
  }

  /// Whether some pair of so many is as slow as this one in each of its rounds although nothing lies between its ends:
  /// of 50,000 values inside leaves, of which one of 140 has a tail of 10 %, a pair has three of them in one network of
  /// 60.
  bool by_chance(const Value& value, std::size_t rail, double again) {
    if (inside_.empty()) {
      for (const auto& [place, values] : at_) {
        for (const Value& other : values) {
          if (place.first < other.partner && !other.across && !other.confirms && other.rate > 0)
            inside_.push_back(other.rate / typical_[place.second]);
        }
      }
      std::sort(inside_.begin(), inside_.end());
    }
    constexpr double most = 0.001;          // networks with such a pair
    constexpr double prior = 0.01, of = 5;  // what few values are taken for
    const double x = std::max(again, value.rate / typical_[rail]), count = static_cast<double>(inside_.size());
    const auto below = std::lower_bound(inside_.begin(), inside_.end(), x) - inside_.begin();
    const auto others = std::max(0.0, static_cast<double>(below) - 1);  // this one is no witness
    const double part = (others + prior * of) / (count + of);
    return count * std::pow(part, 1 + static_cast<double>(rounds_again(value, rail))) > most;
  }

  std::size_t rounds_again(const Value& value, std::size_t rail) const {
    const auto found = at_.find({value.host, rail});
    return static_cast<std::size_t>(std::count_if(found->second.begin(), found->second.end(), [&](const Value& other) {
      return other.confirms && other.partner == value.partner;
    }));
  }

  /// The better of the rounds in which the same pair was measured again.
  std::optional<double> repeated(const Value& value, std::size_t rail) const {
    std::optional<double> again;
    for (const std::size_t host : {value.host, value.partner}) {
      const auto found = at_.find({host, rail});
      if (found == at_.end()) continue;
      for (const Value& other : found->second) {
        const bool same = other.partner == value.partner || other.partner == value.host;
        if (other.confirms && same) again = std::max(again.value_or(0), other.rate / typical_[rail]);
      }
    }
    return again;
  }

  // AllReduce over all rails, of two hosts that are good with each other rail by rail: NVLink, the paths from GPUs to
  // NICs and NCCL's plan work together there. It is said of the pair: one figure tells no end from the other.
  void judge_sums() {
    std::vector<double> inside;  // leaves: across, one rail of all shares a port by chance
    std::map<std::size_t, std::set<std::size_t>> silent, answered;  // with whom
    for (const auto& [pair, sums] : sums_) {
      const bool any = std::any_of(sums.begin(), sums.end(), [](const Sum& sum) { return sum.rate > 0; });
      (any ? answered : silent)[pair.first].insert(pair.second);
      (any ? answered : silent)[pair.second].insert(pair.first);
      for (const Sum& sum : sums) {
        if (sum.rate > 0) all_sums_.push_back(sum.rate);
        if (sum.rate > 0 && !sum.confirms && same_leaf(pair.first, pair.second)) inside.push_back(sum.rate);
      }
    }
    std::set<std::size_t> named;
    for (const Place& place : explained_) named.insert(place.first);
    for (const Diagnosis& d : out_.suspects) {  // of two that do not answer each other no place is explained
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        const bool is = std::any_of(d.places.begin(), d.places.end(),
                                    [&](const Culprit& place) { return place.host == hosts_[host].name; });
        if (is && d.percent >= 100) named.insert(host);
      }
    }
    // Died since the rounds of single rails.
    for (const auto& [host, partners] : silent) {
      if (partners.size() < 2 || answered.contains(host) || !named.insert(host).second) continue;
      only_host(suspect({Cause::slow_node}, {}, 0,
                        fmt::format("{} does not answer in an AllReduce, one partner after another", hosts_[host].name),
                        "is it up? ping it, and look at its console"),
                host);
    }
    const double usual = inside.empty() ? 0 : median(std::move(inside));
    for (const auto& [pair, sums] : sums_) {
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
          evidence.push_back(
              {sum.key, metric, Judgement::peers, sum.rate, usual, 100 * (1 - sum.rate / usual), std::nullopt});
        }
      }
      const bool low = first <= 0 || (same_leaf(a, b) && first < slow_sum * usual);
      if (!low) continue;
      if (best > 0 && (!again || best >= slow_sum * usual)) {
        ++noted_;
        continue;
      }
      const double x = best > 0 ? best / usual : 0;
      auto& d = suspect(
          {Cause::slow_path}, {}, x,
          fmt::format("{} and {} {} in an AllReduce over all rails, and each rail is good{}", hosts_[a].name,
                      hosts_[b].name,
                      best > 0 ? fmt::format("are {:.0f} % slow", 100 * (1 - x)) : "do not answer each other",
                      again ? "; repeated" : ""),
          "run both hosts with NCCL_DEBUG=INFO and compare rings, GPUDirect and NVLink with those of another pair");
      add_evidence(d, std::move(evidence));
      d.percent = 100 * (1 - x);
      d.places = {whole(a), whole(b)};
      d.place_count = 2;
    }
  }

  // --- words ---

  void note_wrong(const std::string& key, const Row& row) {
    Finding finding;
    finding.key = key;
    finding.status = Status::fail;
    finding.judgement = Judgement::peers;
    finding.wrong_ranks = row.wrong_ranks;
    finding.detail = "wrong data between hosts, seen at " + plural(row.wrong_ranks.size(), "rank");
    for (const int rank : row.wrong_ranks) {
      if (static_cast<std::size_t>(rank) >= context_->ranks.size()) continue;
      if (finding.offenders.size() < max_offenders) {
        finding.offenders.push_back(culprit(context_->ranks[static_cast<std::size_t>(rank)]));
      }
    }
    finding.offender_count = row.wrong_ranks.size();
    if (!finding.offenders.empty()) finding.worst = finding.offenders.front();
    finding.next = "measure pairs again; if it repeats, swap the NIC or the cable of this rank";
    out_.wrong_data.push_back(std::move(finding));
  }

  void conclude() {
    std::stable_sort(out_.suspects.begin(), out_.suspects.end(), [](const Diagnosis& a, const Diagnosis& b) {
      return a.percent.value_or(0) > b.percent.value_or(0);
    });
    out_.judged = hosts_.size() >= least_hosts;
    for (const Diagnosis& d : out_.suspects) {
      Finding finding = plain(Status::fail, causes_text(d) + ": " + d.detail);
      finding.offenders = d.places;
      finding.offender_count = d.place_count;
      if (!d.places.empty()) finding.worst = d.places.front();
      finding.next = d.next;
      out_.findings.push_back(std::move(finding));
    }
    if (out_.suspects.empty() && out_.judged) {
      out_.findings.push_back(
          plain(Status::pass, fmt::format("{} hosts, {} rails: all pairs alike", hosts_.size(), rails_)));
    }
    out_.said = fmt::format("pairs of {} hosts on {} rails: {}", hosts_.size(), rails_,
                            out_.suspects.empty() ? "nobody stands out" : plural(out_.suspects.size(), "suspect"));
    if (!all_sums_.empty()) {
      out_.said += fmt::format("; AllReduce of two hosts {:.4g} GB/s at the median", median(all_sums_));
    }
    if (noted_ > 0) out_.said += fmt::format("; {} slow in one round only", plural(noted_, "pair"));
  }

  static Finding plain(Status status, std::string detail) {
    Finding finding;
    finding.key = "pairs";
    finding.status = status;
    finding.judgement = Judgement::peers;
    finding.detail = std::move(detail);
    finding.source = "the other hosts of this run";
    return finding;
  }

  const PeerComparison& peers_;
  std::vector<const Benchmark*> rows_;
  const Context* context_ = nullptr;
  std::vector<Host> hosts_;
  std::vector<std::size_t> host_of_, rail_of_;  // by rank
  std::size_t rails_ = 0;
  std::map<Place, std::vector<Value>> at_;  // both ways
  std::map<Place, std::vector<double>> out_rate_, in_rate_;
  std::map<Pair, std::vector<Sum>> sums_;
  std::vector<double> all_sums_;
  std::vector<double> reference_;  // by rail: what hosts reach at their best
  std::vector<double> inside_;     // leaves, over `typical_`, sorted; made when first asked for
  std::vector<double> typical_;    // by rail: the middle of all values
  std::set<Place> explained_, across_explained_;
  std::size_t noted_ = 0;
  FabricJudgement out_;
};

}  // namespace

FabricJudgement judge_fabric(const Benchmarks& benchmarks, const PeerComparison& peers,
                             const std::map<std::string, std::string>& leaves) {
  return FabricJudge(benchmarks, peers, leaves).run();
}

}  // namespace shakedown
