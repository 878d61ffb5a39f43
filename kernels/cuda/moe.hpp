// Kernels for the exchange of tokens with experts over the memory of peers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/gpu.hpp"
#include "kernels/ops/moe.hpp"

namespace shakedown::cuda {

inline constexpr int max_moe_ranks = 16;  // GPUs of one host

/// A copy of a token of this rank at another rank.
struct MoeCopy {
  std::uint32_t rank;   // that has the copy
  std::uint32_t place;  // of the copy in that rank's memory, in tokens
  float weight;         // of the copy in a combine
};

/// The copies of all tokens of this rank. Those of token t are copies[first[t]] up to, but not including,
/// copies[first[t + 1]]. Both arrays are in device memory.
struct MoeCopies {
  const std::uint32_t* first;
  const MoeCopy* copies;
  std::uint32_t tokens;
  std::uint32_t vectors;  // of 16 bytes in a token
};

/// The memory of all ranks of the host, mapped into this one.
struct MoePeers {
  std::byte* data[max_moe_ranks];
  /// One counter per rank in each rank's memory: the number of operations that this rank has finished.
  unsigned* finished[max_moe_ranks];
  int ranks, rank;
};

/// Counters of this rank in device memory.
struct MoeProgress {
  unsigned blocks_done;
  unsigned late;  // 1 + a rank that did not finish within 10 s; later operations then do not wait
};

/// Queue an operation, number `number` of this communicator, counted from 1. The operation ends after all ranks have
/// finished it. dispatch writes each token to its copies, `offset` bytes after the beginning of a rank's data. combine
/// writes the weighted sums of the copies to `out`.
void dispatch_tokens(const Gpu&, const MoeCopies&, const MoePeers&, const void* in, std::size_t offset, unsigned number,
                     MoeProgress*);
void combine_tokens(const Gpu&, const MoeCopies&, const MoePeers&, void* out, unsigned number, MoeProgress*);

/// A token at its place in the memory of a rank: its sender and its index there.
struct MoeToken {
  std::uint32_t of, index;
};

/// Queues a fill of the outputs of the experts of rank `at` for these tokens, which are in device memory.
void fill_outputs(const Gpu&, const View&, const MoeToken*, const MoeNumbers&, int at);
/// Count wrong words of received tokens, and wrong numbers of sums; both wait. Indices are in words or numbers.
Tally count_wrong_tokens(const Gpu&, const View&, const MoeToken*, const MoeSpec&);
Tally count_wrong_sums(const Gpu&, const View&, const MoeCopies&, const MoeNumbers&, int of);

}  // namespace shakedown::cuda
