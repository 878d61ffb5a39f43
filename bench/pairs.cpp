// Pairs of hosts: which host, NIC, rail or switch is bad. Every host works with one partner at a time, rail r with rail
// r (rank r of each host), all pairs at once and both ways: three rounds inside leaves and three across, or six over
// shuffled hosts where no site file says the topology. Then whoever was slow, again, with partners that are proven.
//
//   mpirun -np 32 build/bench/bench_pairs --site=mysite.yaml --benchmark_out=pairs.json
#include <random>

#include "base/archive.hpp"
#include "fixtures/rounds.hpp"

namespace shakedown {

namespace {

/// The leaf of every host, as rank 0 read it in the site file; empty where it says nothing.
std::vector<std::string> leaves_of(Session& session) {
  std::vector<std::string> leaves;
  for (const auto& host : session.context().inventory) leaves.push_back(host.leaf.value_or(""));
  return broadcast(session.world(), leaves);
}

}  // namespace

void register_benchmarks(Session& session) {
  const std::size_t bytes = std::size_t{1} << (session.backend() == Backend::cuda ? 28 : 23);
  if (session.world().host_count() == 1) {
    return session.add(
        {"pairs/op:sendrecv/scope:any/round:0/bytes:" + std::to_string(bytes),
         {},
         0,
         [](Device&) -> std::unique_ptr<Work> { throw Unsupported("there is one host only: it has no partner"); },
         nullptr});
  }
  const int seed = broadcast(session.world(), static_cast<int>(std::random_device()() >> 1));
  Rounds::add(std::make_shared<Rounds>(session, leaves_of(session), static_cast<std::uint32_t>(seed), bytes));
}

}  // namespace shakedown
