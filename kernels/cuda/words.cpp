// Known words in the buffers of copies.
#include "kernels/cuda/words.hpp"

#include <fmt/format.h>

namespace shakedown::cuda {

void fill_words(const Gpu& gpu, const View& buffer, std::uint64_t source, Content content) {
  write_words(gpu.stream(), buffer.data<std::uint64_t>(), {buffer.bytes(), source, content});
}

void poison(const Gpu& gpu, const Buffer& buffer) { gpu.fill(buffer, poison_byte); }

Check check_words(const Gpu& gpu, const View& buffer, std::uint64_t source, Content content) {
  const WordPattern pattern{buffer.bytes(), source, content};
  const auto* words = buffer.data<const std::uint64_t>();
  count_wrong_words(gpu.stream(), words, pattern, gpu.start_tally());
  const auto tally = gpu.finish_tally();
  Check check{tally.compared, tally.mismatched, ""};
  if (check.mismatched > 0) {
    check.first = fmt::format("byte {}: word is 0x{:016x}, expected 0x{:016x}", 8 * tally.first,
                              gpu.read(words + tally.first), pattern.at(tally.first));
  }
  return check;
}

void flip_one_bit(const Gpu& gpu, const View& buffer) {
  const auto* place = buffer.at(buffer.bytes() / 2);
  const auto flipped = gpu.read(place) ^ std::byte{1};
  gpu.write(buffer.at(buffer.bytes() / 2), &flipped, 1);
}

}  // namespace shakedown::cuda
