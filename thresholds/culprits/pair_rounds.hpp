// The values of rounds of pairs: the rate of each rail of each host with one partner after another, relative to the
// other hosts on that rail. fabric.cpp finds the part at fault. Pure.
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
/// The median of all values would be wrong: one bad host of three is an end of two pairs in three.
RailRates rates_of_rail(const std::vector<Exchange>&);

struct PairRounds {
  static constexpr const char* metric = "busbw_gb_per_s";
  /// A relative rate below this is slow. The distance is three times the variation of the best of three rounds at 1.5 %
  /// noise, and half of the smallest fault to report (10 %).
  static constexpr double slow = 0.95;

  /// The value of one rank in one round.
  struct Value : Exchange {
    double x = 0;  // relative to the rail's reference; 0: no answer
    Key key;
    bool across = false;    // different leaf switches, or unknown
    bool confirms = false;  // from a retest
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

  /// `leaves` has the leaf switch of hosts without one in the results.
  PairRounds(const Benchmarks&, const std::map<std::string, std::string>& leaves);

  bool empty() const { return at.empty() && sums.empty(); }
  bool same_leaf(std::size_t a, std::size_t b) const {
    return !hosts[a].leaf.empty() && hosts[a].leaf == hosts[b].leaf;
  }
  /// Returns the hosts by leaf switch, as far as it is known.
  std::map<std::string, std::vector<std::size_t>> leaves() const;
  bool has(std::size_t host, std::size_t rail) const;
  const RankFacts& facts(const Place&) const;
  /// Returns the NICs without a value although another partner of their host has this rail.
  std::vector<Place> unseen() const;

  double best_rate(const Place&) const;
  /// Returns the best of all rounds relative to the reference; nullopt without a value.
  std::optional<double> best(const Place&) const;
  bool low(const Place&) const;
  /// Returns the exchanges between hosts with normal rates on all rails, or all but one.
  struct SameRounds {
    std::vector<double> rates;  // by rail: median of the best rate of each host
    std::size_t rounds = 0;     // largest number of rounds of a host
  };
  /// A rail with bad NICs has fewer rounds than others, and the best of few is lower than the best of many.
  SameRounds same_rounds(std::size_t rail) const;
  /// True if the host stopped answering while others continued: silent with one partner after another, however good it
  /// was before.
  bool fell_silent(std::size_t host) const;
  /// Returns ", sending only" if one direction alone was slow in a retest.
  std::string way_of(const std::vector<Place>&) const;

  /// Returns the values of `host` in retests with this partner.
  std::vector<const Value*> again(std::size_t host, std::size_t partner, std::size_t rail) const;
  /// Returns the best retest of the pair of this value, relative to the median of its rail.
  std::optional<double> repeated(const Value&, std::size_t rail) const;
  /// True if chance alone can explain that one of all pairs is this slow in each of its rounds. Of 50,000 values inside
  /// leaves, of which one in 140 has a tail of 10 %, some pair has three of them in one network of 60.
  bool by_chance(const Value&, std::size_t rail, double repeated) const;

  std::vector<const Benchmark*> rows;
  const Context* context = nullptr;
  std::vector<Host> hosts;
  std::size_t rails = 0;
  std::map<Place, std::vector<Value>> at;  // both ways
  std::map<Pair, std::vector<Sum>> sums;
  std::vector<double> reference;  // by rail: best rate of hosts
  std::vector<double> typical;    // by rail: normal rate

 private:
  void read_hosts(const std::map<std::string, std::string>& leaves);
  void read_values();

  std::vector<std::size_t> host_of_, rail_of_;  // by rank
  std::map<Place, std::vector<double>> out_rate_, in_rate_;
  std::vector<double> inside_;  // leaf switches, relative to `typical`, sorted
};

}  // namespace shakedown
