// A buffer of position-dependent words, for copies: filled, poisoned, checked on every word, and damaged for tests.
#pragma once

#include <cstdint>

#include "kernels/cuda/data.hpp"
#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

void fill_words(const Gpu&, const View&, std::uint64_t source, Content = Content::copied);
void poison(const Gpu&, const Buffer&);
/// The first wrong word is named with its byte offset, what is there and what should be.
Check check_words(const Gpu&, const View&, std::uint64_t source, Content = Content::copied);
void flip_one_bit(const Gpu&, const View&);

}  // namespace shakedown::cuda
