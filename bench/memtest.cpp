// Memory test: writes a pattern to nearly all free memory of every GPU, reads it back, and reports the addresses of
// wrong words. Every second pass writes the complement. The full tier uses more patterns, and on GPUs it runs GEMMs at
// the same time. On the host it tests a limited part of the memory.
//
//   mpirun -np 4 build/bench/bench_memtest --tier=full
#include "fixtures/plan/session.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown {

namespace {

/// Counts the bytes that memory must write and read. 1 GB is 1e9 bytes.
Metrics figures(const Cost& traffic, double seconds, int) { return {{"hbm_gb_per_s", traffic.bytes / seconds / 1e9}}; }

/// Reports the rate with concurrent GEMMs. This rate is not judged, because the GEMMs use a part of the bandwidth.
Metrics loaded_figures(const Cost& traffic, double seconds, int) {
  return {{"loaded_gb_per_s", traffic.bytes / seconds / 1e9}};
}

}  // namespace

void register_memtest(Session& session) {
  std::optional<std::size_t> bytes;  // nullopt: nearly all free memory
  if (!session.has_gpus()) bytes = std::size_t{64} << 20;
  session.add(MemoryTestSpec{TestPattern::random, bytes}, figures);
  if (!session.full()) return;
  for (const auto pattern : {TestPattern::address, TestPattern::complement, TestPattern::alternating}) {
    session.add(MemoryTestSpec{pattern, bytes}, figures);
  }
  if (session.has_gpus()) {
    session.add(MemoryTestSpec{TestPattern::moving, bytes, true}, loaded_figures);
  } else {
    session.add(MemoryTestSpec{TestPattern::moving, bytes}, figures);
  }
}

}  // namespace shakedown
