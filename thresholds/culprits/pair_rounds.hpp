// The values of rounds of pairs: the rate of each rail of each host with one partner after another, over the rate that
// others reach on that rail. fabric.cpp decides which part is at fault. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The rate of a host with another one over one rail; 0: no answer.
struct Exchange {
  std::size_t host = 0, partner = 0;
  double rate = 0;
};
struct RailRates {
  double best = 0;   // median of the best rate of each host
  double usual = 0;  // median of the pairs whose ends both come near `best` with some partner
};
/// The median of all values would be wrong: a bad one of three hosts is an end of two pairs in three.
RailRates rates_of_rail(const std::vector<Exchange>&);

struct PairRounds {
  static constexpr const char* metric = "busbw_gb_per_s";
  /// A rate below this part of the others' is slow: three times what the best of three rounds scatters at 1.5 % noise,
  /// and half of the least fault that is worth a person's time, 10 %.
  static constexpr double slow = 0.95;

  /// The value of one rank in one round.
  struct Value : Exchange {
    double x = 0;  // over the rail's reference; 0: no answer
    Key key;
    bool across = false;    // leaves, or it is not known
    bool confirms = false;  // measured again
  };
  /// AllReduce over all rails of both hosts, in one row.
  struct Sum {
    Key key;
    double rate = 0;  // 0: no answer
    bool confirms = false;
  };
  struct Host {
    std::string name, leaf;
    std::vector<int> ranks;  // by rail
  };
  using Place = std::pair<std::size_t, std::size_t>;  // host, rail
  using Pair = std::pair<std::size_t, std::size_t>;   // of hosts

  /// `leaves`: the leaf switch by host, for hosts whose switch is not on record in the results.
  PairRounds(const Benchmarks&, const std::map<std::string, std::string>& leaves);

  bool empty() const { return at.empty() && sums.empty(); }
  bool same_leaf(std::size_t a, std::size_t b) const {
    return !hosts[a].leaf.empty() && hosts[a].leaf == hosts[b].leaf;
  }
  /// Hosts by leaf, as far as leaves are known.
  std::map<std::string, std::vector<std::size_t>> leaves() const;
  bool has(std::size_t host, std::size_t rail) const;
  const RankFacts& facts(const Place&) const;
  /// NICs without a value, though a partner of their host has this rail.
  std::vector<Place> unseen() const;

  double best_rate(const Place&) const;
  /// The best of all rounds, over the reference; nothing without any.
  std::optional<double> best(const Place&) const;
  bool low(const Place&) const;
  /// Exchanges between hosts that are not low on one rail, on all rails.
  struct SameRounds {
    std::vector<double> rates;  // by rail: the median of the best rate of each host
    std::size_t rounds = 0;     // at most, of a host
  };
  /// Bad NICs leave a rail fewer rounds than others have, and the best of few is less than the best of many.
  SameRounds same_rounds(std::size_t rail) const;
  /// Died while others went on: silent with one partner after another, however good it was before.
  bool fell_silent(std::size_t host) const;
  /// ", sending only": one direction only, where it was measured again.
  std::string way_of(const std::vector<Place>&) const;

  /// The values of `host` when it was measured again with this partner.
  std::vector<const Value*> again(std::size_t host, std::size_t partner, std::size_t rail) const;
  /// The better of the rounds in which the pair of this value was measured again, over the middle of its rail.
  std::optional<double> repeated(const Value&, std::size_t rail) const;
  /// Whether one of all pairs is as slow as this one in each of its rounds by chance, with nothing wrong between its
  /// ends: of 50,000 values inside leaves, of which one of 140 has a tail of 10 %, a pair has three of them in one
  /// network of 60.
  bool by_chance(const Value&, std::size_t rail, double repeated) const;

  std::vector<const Benchmark*> rows;
  const Context* context = nullptr;
  std::vector<Host> hosts;
  std::size_t rails = 0;
  std::map<Place, std::vector<Value>> at;  // both ways
  std::map<Pair, std::vector<Sum>> sums;
  std::vector<double> reference;  // by rail: what hosts reach at their best
  std::vector<double> typical;    // by rail: the usual rate

 private:
  void read_hosts(const std::map<std::string, std::string>& leaves);
  void read_values();

  std::vector<std::size_t> host_of_, rail_of_;  // by rank
  std::map<Place, std::vector<double>> out_rate_, in_rate_;
  std::vector<double> inside_;  // leaves, over `typical`, sorted
};

}  // namespace shakedown
