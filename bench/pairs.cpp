// Pairs of hosts: which host, NIC, rail or switch is bad. Every host works with one partner at a time, rail r with rail
// r (rank r of each host), all pairs at once and both ways: three rounds inside leaves and three across, or six over
// shuffled hosts where no site file says the topology. Then AllReduce over all rails
// of both hosts, with two partners. Then whoever was slow, again, with partners that are proven.
//
//   mpirun -np 32 build/bench/bench_pairs --site=mysite.yaml --benchmark_out=pairs.json
#include "fixtures/pairs/rounds.hpp"
#include "fixtures/plan/session.hpp"

namespace shakedown {

void register_pairs(Session& session) {
  const bool cuda = session.backend() == Backend::cuda;
  const std::size_t bytes = std::size_t{1} << (cuda ? 28 : 23);
  // A size that AllReduce has anyway: what one host does is known of it.
  const std::size_t sum_bytes = std::size_t{1} << (cuda ? 30 : 23);
  const auto rounds = std::make_shared<Rounds>(session.hosts(), session.leaves(), bytes, sum_bytes);
  if (rounds->hosts() > 1) return Rounds::add(rounds, session);
  session.add({"pairs/op:sendrecv/scope:any/round:0/bytes:" + std::to_string(bytes),
               {},
               0,
               [](Device&) -> std::unique_ptr<Work> { throw Unsupported("there is one host only: it has no partner"); },
               nullptr});
}

}  // namespace shakedown
