// Made-up fat trees, for judging the judge of networks: hosts with one NIC for each rail under leaf switches, one leaf
// switch for each rail and group of hosts, leaves joined by a spine. Written without a look at how the judge decides.
//
// Seeds: 1 to 999 are for tuning a judge, 3000000 and up are held out for the figures that are published.
//
// The noise: NICs of one kind reach 0.92 to 0.98 of their rate (NCCL over NDR 46 to 49 GB/s of 50, HDR 24 of 25), so 47
// in the middle and no value above 49.3; a value scatters by 1.5 %, and one of fifty is an exponential tail of 10 %
// below (pauses, congestion, other jobs); NICs differ by 0.3 %; the two ends of a pair by 0.2 %. Across leaves flows
// are spread by a hash of their addresses and ports (RFC 2992): with about ten flows for as many spine ports most
// leaves have some two on one port, adaptive routing takes most of that away, so one pair of twelve has a part of 0.5
// to 0.9.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown::fabric {

/// sum: two hosts whose AllReduce has half of its rate, though every rail is good.
struct Fault {
  enum class Kind { nic, host, leaf, uplink, path, rail, dead_host, dead_pair, sum };
  Kind kind;
  double part = 0.9;  // of the rate that is left
  // Where, chosen by the seed.
  int host = -1, other_host = -1, rail = -1, leaf = -1, other_leaf = -1;
};
constexpr auto words(Fault::Kind) {
  return names("nic", "host", "leaf", "uplink", "path", "rail", "dead_host", "dead_pair", "sum");
}

struct Tree {
  int hosts = 128, rails = 8, hosts_per_leaf = 32;
  bool topology = true;  // is on record
  std::uint64_t seed = 1;
  std::vector<Fault> faults;

  std::string host_name(int host) const { return "n" + std::to_string(host); }
  std::string leaf_name(int leaf) const { return "leaf" + std::to_string(leaf); }
  int leaf_of(int host) const { return host / hosts_per_leaf; }
  int leaves() const { return (hosts + hosts_per_leaf - 1) / hosts_per_leaf; }
};

/// Puts the faults somewhere, no two at one place.
void place(Tree&);

/// What bench_pairs would write.
Results measure(const Tree&);

}  // namespace shakedown::fabric
