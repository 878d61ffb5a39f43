// Kernels that write known data and check it: the formulas of reference.hpp on the GPU. All are queued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/tally.hpp"
#include "kernels/device.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

// Copies -------------------------------------------------------------------------------------------------------------

inline constexpr int poison_byte = 0xa5;

/// What the words of a buffer are.
enum class Content {
  copied,   // copy_word
  written,  // written_word
  number,   // stream_number of array `source`, of which rank r has 2 r and 2 r + 1; scaled: times the factor;
  scaled,   // added and triad: with that of array source + 1
  added,
  triad,
};

/// A buffer of `bytes` bytes filled by rank or array `source`, seen as whole words. What the last word holds behind the
/// end of the buffer stays poisoned, so that a copy that goes too far is seen.
struct WordPattern {
  std::size_t bytes;
  std::uint64_t source;
  Content content = Content::copied;

  constexpr std::size_t words() const { return (bytes + 7) / 8; }
  constexpr std::uint64_t at(std::size_t i) const {
    const auto word = whole_word(i);
    if (i + 1 < words() || bytes % 8 == 0) return word;
    const std::uint64_t inside = (std::uint64_t{1} << (bytes % 8 * 8)) - 1;  // the GPU is little-endian
    return (word & inside) | (0xa5a5a5a5a5a5a5a5ULL & ~inside);
  }

 private:
  constexpr std::uint64_t whole_word(std::size_t i) const {
    switch (content) {
      case Content::written: return reference::written_word(i, source);
      case Content::number: return std::bit_cast<std::uint64_t>(number(i, 0));
      case Content::scaled: return std::bit_cast<std::uint64_t>(reference::stream_factor * number(i, 0));
      case Content::added: return std::bit_cast<std::uint64_t>(number(i, 0) + number(i, 1));
      case Content::triad: return std::bit_cast<std::uint64_t>(number(i, 0) + reference::stream_factor * number(i, 1));
      case Content::copied: break;
    }
    return reference::copy_word(i, source);
  }
  constexpr double number(std::size_t i, std::uint64_t next) const {
    return reference::stream_number(i, source + next);
  }
};

void write_words(cudaStream_t, std::uint64_t* words, const WordPattern&);
void count_wrong_words(cudaStream_t, const std::uint64_t* words, const WordPattern&, Tally*);
/// Adds up the words that the pattern says, modulo 2^64, without any buffer.
void add_expected_words(cudaStream_t, const WordPattern&, unsigned long long* sum);
/// Adds up the words of a buffer, modulo 2^64.
void add_words(cudaStream_t, const std::uint64_t* words, std::size_t count, unsigned long long* sum);

// GEMM ---------------------------------------------------------------------------------------------------------------

/// int8 takes the whole range: 4 standard deviations are 127, what lies beyond is cut off.
inline constexpr double int8_deviation = 32;

/// Element i = reference::normal(i, stream_id), rounded to the type (int8: times int8_deviation). All types; the block
/// scales of nvfp4 and mxfp8 are taken to be 1.
void write_normal(cudaStream_t, void* values, DType, std::size_t count, std::uint64_t stream_id);

/// Adds up all words, each mixed with its position, modulo 2^64: the same in whatever order.
void add_checksum(cudaStream_t, const std::uint64_t* words, std::size_t count, unsigned long long* sum);

}  // namespace shakedown::cuda
