// The values of rounds of pairs: the rate of each rail of each host with different partners, relative to the other
// hosts on the same rail. fabric.cpp finds the part at fault. The functions are pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The rate between two hosts over one rail; 0: no answer.
struct Exchange {
  std::size_t host = 0, partner = 0;
  double rate = 0;
};
struct RailRates {
  double best = 0;   // median of the best rates of all hosts
  double usual = 0;  // median of those pairs whose two ends each reach nearly `best` with some partner
};
/// Returns both rates of a rail. The median of all values would be wrong: if one of three hosts is bad, it is an end of
/// two pairs in three.
RailRates rates_of_rail(const std::vector<Exchange>&);

/// measured: bytes per second; per_core_time: bytes per second in which both ends had a core.
enum class PairRate { measured, per_core_time };

struct PairRounds {
  static constexpr const char* metric = "busbw_gb_per_s";

  /// The value of one rank in one round.
  struct Value : Exchange {
    double x = 0;              // rate relative to the reference of the rail; 0: no answer
    const Key* key = nullptr;  // of the benchmark
    bool across = false;       // true: the leaf switches are different or unknown
    bool confirms = false;     // true: a repeated measurement
  };
  /// An AllReduce over all rails of two hosts, which is one row.
  struct Sum {
    Key key;
    double rate = 0;  // 0 if there was no answer
    bool confirms = false;
  };
  struct Host {
    std::string name, leaf;
    std::vector<int> ranks;  // by rail: the rank
  };
  using Place = std::pair<std::size_t, std::size_t>;  // a host and a rail
  using Pair = std::pair<std::size_t, std::size_t>;   // two hosts

  /// `leaves` gives the leaf switches of hosts for which the results have none.
  PairRounds(const Benchmarks&, const std::map<std::string, std::string>& leaves, PairRate = PairRate::measured);

  /// True if some rank waited for a core for more than 1 % of a round. A shorter wait is below the noise of rates.
  bool waited_for_cores() const { return longest_wait_ > 0.01; }

  bool empty() const { return at.empty() && sums.empty(); }
  bool same_leaf(std::size_t a, std::size_t b) const {
    return !hosts[a].leaf.empty() && hosts[a].leaf == hosts[b].leaf;
  }
  /// Returns the hosts of each leaf switch. Omits hosts whose leaf switch is unknown.
  std::map<std::string, std::vector<std::size_t>> leaves() const;
  bool has(std::size_t host, std::size_t rail) const;
  const RankFacts& facts(const Place&) const;
  /// Returns the NICs without a value, on rails for which another partner of their host has a value.
  std::vector<Place> unseen() const;

  double best_rate(const Place&) const;
  /// Returns the best of all rounds relative to the reference; nullopt if there is no value.
  std::optional<double> best(const Place&) const;
  /// True if the best of all rounds is slow, and below the scatter.
  bool low(const Place&) const;
  /// True if the scatter of all rounds does not explain a rate of `x` times the usual one.
  bool is_below_scatter(double x) const;
  /// Returns the relative standard deviation of a rate around the slower of the best rates of its two ends.
  double scatter() const { return scatter_; }
  /// Returns the number of NICs that are slow, but not below the scatter.
  std::size_t count_within_scatter() const;
  /// The exchanges between hosts whose rates are normal on all rails, or on all but one.
  struct SameRounds {
    std::vector<double> rates;  // by rail: median of the best rates of all hosts
    std::size_t rounds = 0;     // largest number of rounds of a host
  };
  /// Returns rates that come from the same number of rounds on each rail. A rail with bad NICs has fewer usable rounds,
  /// and the best of few values is lower than the best of many.
  SameRounds same_rounds(std::size_t rail) const;
  /// True if the host stopped answering while others continued: it was silent with several partners one after another,
  /// even if it was fast before.
  bool fell_silent(std::size_t host) const;
  /// Returns ", sending only" if a repeated measurement was slow in only one direction.
  std::string way_of(const std::vector<Place>&) const;

  /// Returns the values of `host` in repeated measurements with this partner.
  std::vector<const Value*> again(std::size_t host, std::size_t partner, std::size_t rail) const;
  /// Returns the best repeated measurement of this pair, relative to the median of its rail.
  std::optional<double> repeated(const Value&, std::size_t rail) const;
  /// True if chance alone can explain that one of all pairs is this slow in each of its rounds. Among 50,000 values
  /// inside leaves, one in 140 has a tail of 10 %, so in one network of 60 some pair has three such values.
  bool by_chance(const Value&, std::size_t rail, double repeated) const;

  std::vector<const Benchmark*> rows;
  const Context* context = nullptr;
  std::vector<Host> hosts;
  std::size_t rails = 0;
  std::map<Place, std::vector<Value>> at;  // values of rounds in both directions
  std::map<Pair, std::vector<Sum>> sums;
  std::vector<double> reference;  // by rail: best rate of the hosts
  std::vector<double> typical;    // by rail: usual rate

 private:
  void read_hosts(const std::map<std::string, std::string>& leaves);
  void read_values(PairRate);
  void read_scatter();

  std::vector<std::size_t> host_of_, rail_of_;  // by rank
  std::map<Place, std::vector<double>> out_rate_, in_rate_;
  /// Standard deviation of the logarithm of a rate around the slower of the best rates of its two ends. Hosts that
  /// share cores, for example, scatter by a factor.
  double scatter_ = 0;
  double longest_wait_ = 0;     // share of a round in which other threads had the core of a rank
  std::vector<double> inside_;  // values between hosts of the same leaf switch, relative to `typical`, sorted
};

}  // namespace shakedown
