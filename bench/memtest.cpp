// Memory test: writes a pattern over nearly all free memory of every GPU, reads it back, and fails with the addresses
// of the words that are wrong. Every other walk has the complement. The full tier walks in more patterns, and on GPUs
// beside products. On the host a bounded part of the memory.
//
//   mpirun -np 4 build/bench/bench_memtest --tier=full
#include "fixtures/plan/session.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown {

namespace {

/// What the memory had to write and to read. 1 GB = 1e9 bytes.
Metrics figures(const Cost& traffic, double seconds, int) { return {{"hbm_gb_per_s", traffic.bytes / seconds / 1e9}}; }

/// Beside products, which take what they take: shown, not judged.
Metrics loaded_figures(const Cost& traffic, double seconds, int) {
  return {{"loaded_gb_per_s", traffic.bytes / seconds / 1e9}};
}

}  // namespace

void register_memtest(Session& session) {
  std::optional<std::size_t> bytes;  // all that is free
  if (session.backend() == Backend::host) bytes = std::size_t{64} << 20;
  session.add(MemoryTestSpec{TestPattern::random, bytes}, figures);
  if (session.options().tier != "full") return;
  for (const auto pattern : {TestPattern::address, TestPattern::complement, TestPattern::alternating}) {
    session.add(MemoryTestSpec{pattern, bytes}, figures);
  }
  if (session.backend() == Backend::cuda) {
    session.add(MemoryTestSpec{TestPattern::moving, bytes, true}, loaded_figures);
  } else {
    session.add(MemoryTestSpec{TestPattern::moving, bytes}, figures);
  }
}

}  // namespace shakedown
