// Neighbouring threads take neighbouring 16-byte vectors; the walk over a piece is one grid-wide stride after another.
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/memory_walk.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

namespace {

constexpr unsigned threads = 512, blocks = 4096;  // in a block, in the grid

template <TestPattern pattern>
__global__ void __launch_bounds__(threads) write_kernel(Piece piece) {
  auto* const vectors = reinterpret_cast<ulonglong2*>(piece.words);
  for (auto v = first_index(); v < piece.count / 2; v += stride()) {
    const auto i = piece.first + 2 * v;
    vectors[v] = {reference::test_word(pattern, i), reference::test_word(pattern, i + 1)};
  }
}

__device__ void note(Walked* walked, const Piece& piece, std::size_t word, unsigned long long got) {
  atomicAdd(&walked->mismatched, 1ULL);
  if (walked->found >= Walked::listed) return;  // a whole broken memory must not make the counter wrap
  const unsigned place = atomicAdd(&walked->found, 1U);
  if (place >= Walked::listed) return;
  walked->words[place] = {piece.first + word, reinterpret_cast<unsigned long long>(piece.words + word), got};
}

template <TestPattern pattern>
__global__ void __launch_bounds__(threads) check_kernel(Piece piece, Walked* walked) {
  const auto* const vectors = reinterpret_cast<const ulonglong2*>(piece.words);
  for (auto v = first_index(); v < piece.count / 2; v += stride()) {
    const auto i = piece.first + 2 * v;
    const auto got = vectors[v];
    if (got.x != reference::test_word(pattern, i)) note(walked, piece, 2 * v, got.x);
    if (got.y != reference::test_word(pattern, i + 1)) note(walked, piece, 2 * v + 1, got.y);
  }
  if (first_index() == 0) atomicAdd(&walked->compared, static_cast<unsigned long long>(piece.count));
}

template <TestPattern pattern>
void write_as(cudaStream_t stream, const Piece& piece) {
  write_kernel<pattern><<<blocks, threads, 0, stream>>>(piece);
}
template <TestPattern pattern>
void check_as(cudaStream_t stream, const Piece& piece, Walked* walked) {
  check_kernel<pattern><<<blocks, threads, 0, stream>>>(piece, walked);
}

}  // namespace

void write_piece(cudaStream_t stream, const Piece& piece, TestPattern pattern) {
  switch (pattern) {
    case TestPattern::address: write_as<TestPattern::address>(stream, piece); break;
    case TestPattern::complement: write_as<TestPattern::complement>(stream, piece); break;
    case TestPattern::alternating: write_as<TestPattern::alternating>(stream, piece); break;
    case TestPattern::random: write_as<TestPattern::random>(stream, piece); break;
  }
  check(cudaGetLastError());
}

void check_piece(cudaStream_t stream, const Piece& piece, TestPattern pattern, Walked* walked) {
  switch (pattern) {
    case TestPattern::address: check_as<TestPattern::address>(stream, piece, walked); break;
    case TestPattern::complement: check_as<TestPattern::complement>(stream, piece, walked); break;
    case TestPattern::alternating: check_as<TestPattern::alternating>(stream, piece, walked); break;
    case TestPattern::random: check_as<TestPattern::random>(stream, piece, walked); break;
  }
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
