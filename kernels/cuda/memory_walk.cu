// Consecutive threads access consecutive 16-byte vectors; the walk over a piece is a grid-stride loop.

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/memory_walk.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

namespace {

constexpr unsigned walk_threads = 512, walk_blocks = 4096;  // threads in a block, and blocks in a grid

template <TestPattern pattern>
using Constant = std::integral_constant<TestPattern, pattern>;

template <TestPattern pattern>
__global__ void __launch_bounds__(walk_threads) write_kernel(Piece piece, std::uint64_t inversion) {
  auto* const vectors = reinterpret_cast<ulonglong2*>(piece.words);
  for (auto v = first_index(); v < piece.count / 2; v += stride()) {
    const auto i = piece.first + 2 * v;
    vectors[v] = {reference::test_word(pattern, i) ^ inversion, reference::test_word(pattern, i + 1) ^ inversion};
  }
}

__device__ void note(Walked* walked, const Piece& piece, std::size_t word, unsigned long long got,
                     unsigned long long expected) {
  atomicAdd(&walked->mismatched, 1ULL);
  if (walked->found >= Walked::listed) return;  // keeps the counter from overflowing if the whole memory is broken
  const unsigned place = atomicAdd(&walked->found, 1U);
  if (place >= Walked::listed) return;
  walked->words[place] = {piece.first + word, reinterpret_cast<unsigned long long>(piece.words + word), got, expected};
}

template <TestPattern pattern, Pass pass>
__global__ void __launch_bounds__(walk_threads) check_kernel(Piece piece, std::uint64_t inversion, Walked* walked) {
  auto* const vectors = reinterpret_cast<ulonglong2*>(piece.words);
  for (auto n = first_index(); n < piece.count / 2; n += stride()) {
    const auto v = pass == Pass::down ? piece.count / 2 - 1 - n : n;
    const auto i = piece.first + 2 * v;
    const auto got = vectors[v];
    const auto x = reference::test_word(pattern, i) ^ inversion, y = reference::test_word(pattern, i + 1) ^ inversion;
    if (got.x != x) note(walked, piece, 2 * v, got.x, x);
    if (got.y != y) note(walked, piece, 2 * v + 1, got.y, y);
    if constexpr (pass != Pass::look) vectors[v] = {~x, ~y};
  }
  if (first_index() == 0) atomicAdd(&walked->compared, static_cast<unsigned long long>(piece.count));
}

/// Calls action with the pattern as a compile-time constant.
template <class Action>
void with_pattern(TestPattern pattern, const Action& action) {
  switch (pattern) {
    case TestPattern::address: action(Constant<TestPattern::address>()); break;
    case TestPattern::complement: action(Constant<TestPattern::complement>()); break;
    case TestPattern::alternating: action(Constant<TestPattern::alternating>()); break;
    case TestPattern::random: action(Constant<TestPattern::random>()); break;
    case TestPattern::moving: action(Constant<TestPattern::moving>()); break;
  }
  check(cudaGetLastError());
}

}  // namespace

void write_piece(cudaStream_t stream, const Piece& piece, TestPattern pattern, std::uint64_t inversion) {
  with_pattern(pattern, [&](auto constant) {
    write_kernel<decltype(constant)::value><<<walk_blocks, walk_threads, 0, stream>>>(piece, inversion);
  });
}

void check_piece(cudaStream_t stream, const Piece& piece, TestPattern pattern, std::uint64_t inversion, Walked* walked,
                 Pass pass) {
  with_pattern(pattern, [&](auto constant) {
    constexpr auto p = decltype(constant)::value;
    switch (pass) {
      case Pass::look:
        check_kernel<p, Pass::look><<<walk_blocks, walk_threads, 0, stream>>>(piece, inversion, walked);
        break;
      case Pass::up:
        check_kernel<p, Pass::up><<<walk_blocks, walk_threads, 0, stream>>>(piece, inversion, walked);
        break;
      case Pass::down:
        check_kernel<p, Pass::down><<<walk_blocks, walk_threads, 0, stream>>>(piece, inversion, walked);
        break;
    }
  });
}

}  // namespace shakedown::cuda
