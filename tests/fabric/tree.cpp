#include "tests/fabric/tree.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/statistics.hpp"
#include "fixtures/pairs/pairing.hpp"

namespace shakedown::fabric {

namespace {

constexpr double wire = 49.3, usual = 47.0, noise = 0.015, of_nics = 0.003, of_ends = 0.002;
constexpr double tails = 0.02, tail = 0.10;
constexpr double of_bad_sums = 0.5;
constexpr double collisions = 1.0 / 12, least_left = 0.5, most_left = 0.9;

class Network {
 public:
  explicit Network(const Tree& tree, std::uint64_t salt = 17) : tree_(tree), random_(tree.seed * 2654435761U + salt) {
    std::normal_distribution<double> differ(1, of_nics);
    for (int i = 0; i < tree.hosts * tree.rails; ++i) nics_.push_back(differ(random_));
  }

  /// Both ways at once, of two hosts over one rail; nothing: no answer.
  std::optional<double> rate(int a, int b, int rail) {
    const bool across = tree_.leaf_of(a) != tree_.leaf_of(b);
    double rate = usual * std::min(nic(a, rail), nic(b, rail));
    rate *= std::normal_distribution<double>(1, noise)(random_);
    if (chance() < tails) rate *= std::exp(-std::exponential_distribution<double>(1 / tail)(random_));
    if (across && chance() < collisions) rate *= least_left + (most_left - least_left) * chance();
    for (const auto& fault : tree_.faults) {
      if (!strikes(fault, a, b, rail, across)) continue;
      if (fault.kind == Fault::Kind::dead_host || fault.kind == Fault::Kind::dead_pair) return std::nullopt;
      rate = std::min(rate, usual * fault.part * std::normal_distribution<double>(1, noise)(random_));
    }
    return std::min(rate, wire);
  }

  /// AllReduce over all rails of two hosts, as bus bandwidth: every ring waits for the slowest rail. What two hosts
  /// allow is 2 (n - 1) / n of their NICs' rate (thresholds/rules/fabric_rates.hpp), and published ones reach three
  /// quarters of it.
  std::optional<double> sum(int a, int b) {
    std::optional<double> slowest = wire;
    for (int rail = 0; rail < tree_.rails; ++rail) {
      const auto of_rail = rate(a, b, rail);
      slowest = of_rail && slowest ? std::optional(std::min(*of_rail, *slowest)) : std::nullopt;
    }
    if (!slowest) return slowest;
    const double n = 2.0 * tree_.rails;
    double sum = 0.75 * 2 * (n - 1) / n * tree_.rails * *slowest;
    for (const auto& fault : tree_.faults) {
      const bool struck = std::minmax(a, b) == std::minmax(fault.host, fault.other_host);
      if (fault.kind == Fault::Kind::sum && struck) sum *= of_bad_sums;
    }
    return sum;
  }

  double seen(double rate) { return rate * std::normal_distribution<double>(1, of_ends)(random_); }
  std::uint32_t number() { return static_cast<std::uint32_t>(random_()); }

 private:
  bool strikes(const Fault& f, int a, int b, int rail, bool across) const {
    const auto one = [](int x, int y, int wanted) { return x == wanted || y == wanted; };
    const int leaf_a = tree_.leaf_of(a), leaf_b = tree_.leaf_of(b);
    switch (f.kind) {
      case Fault::Kind::nic: return rail == f.rail && one(a, b, f.host);
      case Fault::Kind::host:
      case Fault::Kind::dead_host: return one(a, b, f.host);
      case Fault::Kind::leaf: return rail == f.rail && one(leaf_a, leaf_b, f.leaf);
      case Fault::Kind::uplink: return rail == f.rail && across && one(leaf_a, leaf_b, f.leaf);
      case Fault::Kind::path: return rail == f.rail && std::minmax(leaf_a, leaf_b) == std::minmax(f.leaf, f.other_leaf);
      case Fault::Kind::rail: return rail == f.rail;
      case Fault::Kind::dead_pair: return std::minmax(a, b) == std::minmax(f.host, f.other_host);
      case Fault::Kind::sum: return false;  // every rail is good
    }
    return false;
  }

  double nic(int host, int rail) const { return nics_[static_cast<std::size_t>(host * tree_.rails + rail)]; }
  double chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  const Tree& tree_;
  std::mt19937_64 random_;
  std::vector<double> nics_;
};

std::vector<std::string> leaves_of(const Tree& tree) {
  std::vector<std::string> leaves;
  for (int host = 0; host < tree.hosts; ++host) {
    leaves.push_back(tree.topology ? tree.leaf_name(tree.leaf_of(host)) : "");
  }
  return leaves;
}

Context context_of(const Tree& tree) {
  Context context;
  context.run_id = "made up";
  context.complete = true;
  context.backend = Backend::cuda;
  context.tier = "quick";
  context.world_size = tree.hosts * tree.rails;
  context.hosts = tree.hosts;
  const auto leaves = leaves_of(tree);
  for (int host = 0; host < tree.hosts; ++host) {
    for (int rail = 0; rail < tree.rails; ++rail) {
      RankFacts rank;
      rank.rank = host * tree.rails + rail;
      rank.host = tree.host_name(host);
      rank.local_rank = rail;
      rank.device = "NVIDIA H200";
      context.ranks.push_back(rank);
    }
    HostFacts facts{tree.host_name(host), tree.rails, tree.rails, std::nullopt, std::nullopt};
    if (tree.topology) facts.leaf = leaves[static_cast<std::size_t>(host)];
    context.inventory.push_back(facts);
  }
  return context;
}

}  // namespace

void place(Tree& tree) {
  std::mt19937_64 random(tree.seed * 40503U + 5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  std::vector<int> hosts, leaves;
  const auto fresh = [&](std::vector<int>& used, int n) {
    for (;;) {
      const int found = below(n);
      if (std::find(used.begin(), used.end(), found) != used.end()) continue;
      used.push_back(found);
      return found;
    }
  };
  for (auto& fault : tree.faults) {
    fault.rail = below(tree.rails);
    fault.host = fresh(hosts, tree.hosts);
    if (fault.kind == Fault::Kind::leaf || fault.kind == Fault::Kind::uplink || fault.kind == Fault::Kind::path) {
      fault.leaf = fresh(leaves, tree.leaves());
    }
    // A path and a pair are there only if some round crosses them.
    std::vector<std::string> names = leaves_of(tree);
    const auto rounds = pair_rounds(names, static_cast<std::uint32_t>(tree.seed));
    if (fault.kind == Fault::Kind::path) {
      for (int host = 0; host < tree.hosts && fault.other_leaf < 0; ++host) {
        if (tree.leaf_of(host) != fault.leaf) continue;
        const int other = rounds.back().partners[static_cast<std::size_t>(host)];
        if (other >= 0 && tree.leaf_of(other) != fault.leaf) fault.other_leaf = tree.leaf_of(other);
      }
    }
    if (fault.kind == Fault::Kind::dead_pair || fault.kind == Fault::Kind::sum) {
      fault.other_host = rounds.front().partners[static_cast<std::size_t>(fault.host)];
      hosts.push_back(fault.other_host);
    }
  }
}

Results measure(const Tree& tree) {
  Results results;
  results.file = "pairs.json";
  results.context = context_of(tree);
  Network network(tree);
  const auto leaves = leaves_of(tree);
  const auto ranks = static_cast<std::size_t>(tree.hosts * tree.rails);
  std::vector<PairRates> seen;

  const auto run = [&](const std::string& key, const Partners& partners, const std::vector<bool>& shown) {
    Row row;
    row.key = Key(key);
    row.real_time = 1;
    std::vector<std::optional<double>> rates(ranks), with(ranks);
    PairRates of_round{partners, std::vector(static_cast<std::size_t>(tree.hosts),
                                             std::vector<std::optional<double>>(static_cast<std::size_t>(tree.rails)))};
    std::vector<double> known;
    for (int host = 0; host < tree.hosts; ++host) {
      const int other = partners[static_cast<std::size_t>(host)];
      if (other < host) continue;
      for (int rail = 0; rail < tree.rails; ++rail) {
        const auto rate = network.rate(host, other, rail);
        for (const auto& [mine, theirs] : {std::pair(host, other), std::pair(other, host)}) {
          if (!shown[static_cast<std::size_t>(mine)]) continue;
          const auto rank = static_cast<std::size_t>(mine * tree.rails + rail);
          with[rank] = theirs * tree.rails + rail;
          if (!rate) continue;
          rates[rank] = network.seen(*rate);
          known.push_back(*rates[rank]);
          of_round.rates[static_cast<std::size_t>(mine)][static_cast<std::size_t>(rail)] = rates[rank];
        }
      }
    }
    if (!known.empty()) row.metrics["busbw_gb_per_s"] = median(known);
    row.by_rank = {{"busbw_gb_per_s", rates}, {"partner", with}};
    results.rows.push_back(std::move(row));
    return of_round;
  };

  const std::string begin = "pairs/op:sendrecv/scope:", end = "/bytes:1073741824";
  for (const auto& round : pair_rounds(leaves, static_cast<std::uint32_t>(tree.seed))) {
    const auto key = begin + std::string(name(round.scope)) + "/round:" + std::to_string(round.number) + end;
    seen.push_back(run(key, round.partners, std::vector<bool>(static_cast<std::size_t>(tree.hosts), true)));
  }
  Network network_of_sums(tree, 71);  // so that rows of single rails stay as they are without these
  const auto run_sums = [&](const std::string& key, const Partners& partners, bool confirms) {
    Row row;
    row.key = Key(key);
    row.real_time = 1;
    std::vector<std::optional<double>> rates(ranks), with(ranks);
    PairRates of_round{partners,
                       std::vector(static_cast<std::size_t>(tree.hosts), std::vector<std::optional<double>>(1))};
    std::vector<double> known;
    for (int host = 0; host < tree.hosts; ++host) {
      const int other = partners[static_cast<std::size_t>(host)];
      if (other < host) continue;
      const auto rate = network_of_sums.sum(host, other);
      for (const auto& [mine, theirs] : {std::pair(host, other), std::pair(other, host)}) {
        if (confirms && mine > theirs) continue;
        with[static_cast<std::size_t>(mine * tree.rails)] = theirs * tree.rails;
        rates[static_cast<std::size_t>(mine * tree.rails)] = rate;
        of_round.rates[static_cast<std::size_t>(mine)].front() = rate;
        if (rate) known.push_back(*rate);
      }
    }
    if (!known.empty()) row.metrics["busbw_gb_per_s"] = median(known);
    row.by_rank = {{"busbw_gb_per_s", rates}, {"partner", with}};
    results.rows.push_back(std::move(row));
    return of_round;
  };
  const std::string begin_of_sums = "pairs/op:allreduce/scope:";
  const auto rounds = pair_rounds(leaves, static_cast<std::uint32_t>(tree.seed));
  std::vector<PairRates> sums;
  for (const auto& round : {rounds.front(), rounds[rounds.size() / 2]}) {
    const auto key = begin_of_sums + std::string(name(round.scope)) + "/round:" + std::to_string(round.number) + end;
    sums.push_back(run_sums(key, round.partners, false));
  }
  auto doubts = doubts_of(seen, leaves);
  for (const auto& fault : tree.faults) {  // who says nothing is not measured again (fixtures/pairs/rounds.cpp)
    if (fault.kind == Fault::Kind::dead_host) std::erase(doubts.suspects, fault.host);
  }
  Partners doubtful(static_cast<std::size_t>(tree.hosts), no_partner);
  for (const auto& [a, b] : doubtful_sums(sums, doubts, leaves)) {
    const bool dead = std::any_of(tree.faults.begin(), tree.faults.end(), [&, a = a, b = b](const Fault& fault) {
      return fault.kind == Fault::Kind::dead_host && (fault.host == a || fault.host == b);
    });
    if (dead) continue;
    doubtful[static_cast<std::size_t>(a)] = b;
    doubtful[static_cast<std::size_t>(b)] = a;
  }
  for (const char* const k : {"0", "1"}) run_sums(begin_of_sums + "any/confirm:" + k + end, doubtful, true);
  const auto again = confirming_rounds(doubts, leaves);
  std::vector<bool> shown(static_cast<std::size_t>(tree.hosts), false);
  for (const int host : doubts.suspects) shown[static_cast<std::size_t>(host)] = true;
  for (const auto& [a, b] : doubts.once) shown[static_cast<std::size_t>(a)] = true;
  for (std::size_t k = 0; k < again.size(); ++k) {
    for (const auto* const direction : {"both", "out", "in"}) {
      run(begin + "any/confirm:" + std::to_string(k) + "/dir:" + direction + end, again[k], shown);
    }
  }
  return results;
}

}  // namespace shakedown::fabric
