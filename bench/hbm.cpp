// Memory bandwidth: copies inside the memory of every GPU (or of the host), all at once, far larger than any cache.
//
//   mpirun -np 4 build/bench/bench_hbm
#include "fixtures/session.hpp"

namespace shakedown {

namespace {

/// Both conventions: copy_gbps counts the bytes that were copied, hbm_gbps what the memory had to read and to write
/// (twice as much). 1 GB = 1e9 bytes.
Metrics figures(const Cost& traffic, double seconds, int) {
  const double hbm_gbps = traffic.bytes / seconds / 1e9;
  return {{"hbm_gbps", hbm_gbps}, {"copy_gbps", hbm_gbps / 2}};
}

}  // namespace

void register_benchmarks(Session& session) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  if (session.backend() == Backend::cuda) {
    for (const auto engine : {Engine::sm, Engine::ce}) {
      for (const std::size_t bytes : {256 * mib, 1024 * mib, 4096 * mib}) {
        session.add(HbmSpec{HbmOp::copy, engine, bytes}, figures);
      }
    }
  } else {
    session.add(HbmSpec{HbmOp::copy, Engine::cpu, 256 * mib}, figures);
  }
}

}  // namespace shakedown
