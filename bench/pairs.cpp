// Pairs of hosts: finds a bad host, NIC, rail or switch. In a round, every host works with one partner, rail r with
// rail r (rank r of each host). All pairs work at once and in both directions. There are three rounds within leaf
// switches and three across, or six over shuffled hosts if no site file gives the topology. After them, two rounds run
// an AllReduce over all rails of both hosts, with two different partners. Slow hosts are then measured again with
// partners that were fast.
//
//   mpirun -np 32 build/bench/bench_pairs --site=mysite.yaml --benchmark_out=pairs.json
#include "fixtures/pairs/rounds.hpp"
#include "fixtures/plan/session.hpp"

namespace shakedown {

void register_pairs(Session& session) {
  const bool cuda = session.has_gpus();
  const std::size_t bytes = std::size_t{1} << (cuda ? 28 : 23);
  // AllReduce is also measured at this size, so that the rate of a single host is known.
  const std::size_t sum_bytes = std::size_t{1} << (cuda ? 30 : 23);
  const auto rounds = std::make_shared<Rounds>(session.hosts(), session.leaves(), bytes, sum_bytes);
  if (rounds->hosts() > 1) return Rounds::add(rounds, session);
  session.add({"pairs/op:sendrecv/scope:any/round:0/bytes:" + std::to_string(bytes),
               {},
               0,
               [](Device&) -> std::unique_ptr<Work> { throw Unsupported("there is only one host, so it has no partner"); },
               nullptr});
}

}  // namespace shakedown
