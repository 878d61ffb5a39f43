// Memory test: writes a pattern over nearly all free memory of every GPU, reads it back, and reports the addresses of
// wrong words. Every second pass writes the complement. The full tier uses more patterns, and on GPUs runs GEMMs at the
// same time. On the host it tests a limited part of the memory.
//
//   mpirun -np 4 build/bench/bench_memtest --tier=full
#include "fixtures/plan/session.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown {

namespace {

/// The bytes that memory must write and read. 1 GB = 1e9 bytes.
Metrics figures(const Cost& traffic, double seconds, int) { return {{"hbm_gb_per_s", traffic.bytes / seconds / 1e9}}; }

/// The rate with concurrent GEMMs, which take a share of the bandwidth: reported but not judged.
Metrics loaded_figures(const Cost& traffic, double seconds, int) {
  return {{"loaded_gb_per_s", traffic.bytes / seconds / 1e9}};
}

}  // namespace

void register_memtest(Session& session) {
  std::optional<std::size_t> bytes;  // nullopt: all free memory
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
