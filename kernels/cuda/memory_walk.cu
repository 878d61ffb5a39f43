// Neighbouring threads take neighbouring 16-byte vectors; the walk over a piece is one grid-wide stride after another.
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/memory_walk.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

namespace {

constexpr unsigned threads = 512, blocks = 4096;  // in a block, in the grid

template <TestPattern pattern>
__global__ void __launch_bounds__(threads) write_kernel(Piece piece, std::uint64_t inversion) {
  auto* const vectors = reinterpret_cast<ulonglong2*>(piece.words);
  for (auto v = first_index(); v < piece.count / 2; v += stride()) {
    const auto i = piece.first + 2 * v;
    vectors[v] = {reference::test_word(pattern, i) ^ inversion, reference::test_word(pattern, i + 1) ^ inversion};
  }
}

__device__ void note(Walked* walked, const Piece& piece, std::size_t word, unsigned long long got,
                     unsigned long long expected) {
  atomicAdd(&walked->mismatched, 1ULL);
  if (walked->found >= Walked::listed) return;  // a whole broken memory must not make the counter wrap
  const unsigned place = atomicAdd(&walked->found, 1U);
  if (place >= Walked::listed) return;
  walked->words[place] = {piece.first + word, reinterpret_cast<unsigned long long>(piece.words + word), got, expected};
}

template <TestPattern pattern>
__global__ void __launch_bounds__(threads) check_kernel(Piece piece, std::uint64_t inversion, Walked* walked) {
  const auto* const vectors = reinterpret_cast<const ulonglong2*>(piece.words);
  for (auto v = first_index(); v < piece.count / 2; v += stride()) {
    const auto i = piece.first + 2 * v;
    const auto got = vectors[v];
    const auto x = reference::test_word(pattern, i) ^ inversion, y = reference::test_word(pattern, i + 1) ^ inversion;
    if (got.x != x) note(walked, piece, 2 * v, got.x, x);
    if (got.y != y) note(walked, piece, 2 * v + 1, got.y, y);
  }
  if (first_index() == 0) atomicAdd(&walked->compared, static_cast<unsigned long long>(piece.count));
}

template <TestPattern pattern>
void write_as(cudaStream_t stream, const Piece& piece, std::uint64_t walk) {
  write_kernel<pattern><<<blocks, threads, 0, stream>>>(piece, reference::inversion(walk));
}
template <TestPattern pattern>
void check_as(cudaStream_t stream, const Piece& piece, std::uint64_t walk, Walked* walked) {
  check_kernel<pattern><<<blocks, threads, 0, stream>>>(piece, reference::inversion(walk), walked);
}

}  // namespace

void write_piece(cudaStream_t stream, const Piece& piece, TestPattern pattern, std::uint64_t walk) {
  switch (pattern) {
    case TestPattern::address: write_as<TestPattern::address>(stream, piece, walk); break;
    case TestPattern::complement: write_as<TestPattern::complement>(stream, piece, walk); break;
    case TestPattern::alternating: write_as<TestPattern::alternating>(stream, piece, walk); break;
    case TestPattern::random: write_as<TestPattern::random>(stream, piece, walk); break;
  }
  check(cudaGetLastError());
}

void check_piece(cudaStream_t stream, const Piece& piece, TestPattern pattern, std::uint64_t walk, Walked* walked) {
  switch (pattern) {
    case TestPattern::address: check_as<TestPattern::address>(stream, piece, walk, walked); break;
    case TestPattern::complement: check_as<TestPattern::complement>(stream, piece, walk, walked); break;
    case TestPattern::alternating: check_as<TestPattern::alternating>(stream, piece, walk, walked); break;
    case TestPattern::random: check_as<TestPattern::random>(stream, piece, walk, walked); break;
  }
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
