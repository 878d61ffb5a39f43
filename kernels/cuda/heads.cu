// Heads of outputs, compared with that of the last one.
#include <cstdint>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/heads.hpp"
#include "kernels/cuda/tally.cuh"

namespace shakedown::cuda {

namespace {

/// All in words. Counts words; the index of the first wrong one is that of its place.
template <class Word>
__global__ void count_wrong_heads_kernel(const Word* first, std::size_t places, std::size_t step, std::size_t head,
                                         Tally* tally) {
  LocalTally mine;
  const Word* const last = first + places * step;
  for (auto i = first_index(); i < places * head; i += stride()) {
    const auto place = i / head, word = i % head;
    mine.add(first[place * step + word] == last[word], place);
  }
  mine.add_to(tally);
}

template <class Word>
void count_wrong_heads(cudaStream_t stream, const void* first, std::size_t places, const Trail& trail, Tally* tally) {
  const auto step = trail.step() / sizeof(Word), head = trail.head() / sizeof(Word);
  count_wrong_heads_kernel<<<blocks_for(places * head), block, 0, stream>>>(static_cast<const Word*>(first), places,
                                                                            step, head, tally);
  check(cudaGetLastError());
}

}  // namespace

void stage_trail(const Gpu& gpu, const View& whole, Trail& trail, int operations, int poison_byte) {
  trail.stage(static_cast<std::size_t>(operations));
  for (const auto& range : {trail.heads(), trail.tails()}) {
    if (range.size() > 0) gpu.fill(whole.part(range.begin, range.size()), poison_byte);
  }
  gpu.synchronize();
}

void check_trail(const Gpu& gpu, const View& whole, const Trail& trail, Check& total) {
  const auto earlier = trail.earlier();
  const auto places = earlier.size() / trail.step();
  if (places == 0) return;
  auto* const tally = gpu.start_tally();
  if (trail.head() % sizeof(std::uint32_t) == 0) {
    count_wrong_heads<std::uint32_t>(gpu.stream(), whole.at(earlier.begin), places, trail, tally);
  } else {
    count_wrong_heads<std::uint8_t>(gpu.stream(), whole.at(earlier.begin), places, trail, tally);
  }
  const auto counted = gpu.finish_tally();
  total.compared += places;
  if (counted.mismatched == 0) return;
  ++total.mismatched;
  if (total.first.empty()) total.first = trail.missing(counted.first);
}

}  // namespace shakedown::cuda
