// Writes, poisons and checks known data in GPU buffers, with the formulas of reference.hpp. Writes and sums are queued
// on the GPU's stream. A check waits, and reports the first mismatch with its actual and expected value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/cuda/gpu.hpp"
#include "kernels/ops/gemm.hpp"
#include "kernels/reference.hpp"
#include "kernels/trail.hpp"

namespace shakedown::cuda {

inline constexpr int poison_byte = 0xa5;
/// Byte value of poisoned outputs of numbers: a NaN, which no check accepts as a sum, and -1 as an integer.
inline constexpr int nan_byte = 0xff;

void poison(const Gpu&, const Buffer&);
void flip_one_bit(const Gpu&, const View&);

// Copies and streams -------------------------------------------------------------------------------------------------

/// The expected content of the words of a buffer.
enum class Content {
  copied,   // copy_word
  written,  // written_word
  number,   // stream_number of array `source`; rank r has the arrays 2 r and 2 r + 1
  scaled,   // the number times the factor; `added` and `triad` do the same with array source + 1
  added,
  triad,
};

/// A buffer of `bytes` bytes, filled by rank or array `source` and read as whole words. The bytes of the last word past
/// the end of the buffer remain poisoned, so that a copy that overruns is detected.
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

void fill_words(const Gpu&, const View&, std::uint64_t source, Content = Content::copied);
Check check_words(const Gpu&, const View&, std::uint64_t source, Content = Content::copied);
/// Adds the expected words of the pattern modulo 2^64, without a buffer.
void add_expected_words(const Gpu&, const WordPattern&, unsigned long long* sum);
/// Adds the words of a buffer modulo 2^64.
void add_words(const Gpu&, const std::uint64_t* words, std::size_t count, unsigned long long* sum);

// GEMM ---------------------------------------------------------------------------------------------------------------

/// Fills element i with reference::normal(i, stream_id), rounded to the type (int8: times int8_deviation). Supports all
/// types; nvfp4 and mxfp8 without their block scales.
void fill_normal(const Gpu&, const Buffer&, DType, std::size_t count, std::uint64_t stream_id);

/// Fills the buffer with the scale factors of `rows` rows, each of `scales.blocks`: a byte `unit` for 1, and `unit +
/// step` for 2. Factors of rows and blocks that pad the last tiles are 1.
void fill_scales(const Gpu&, const Buffer&, std::size_t rows, const reference::BlockScales& scales, unsigned char unit,
                 unsigned char step);

/// Fills the buffer with the factors of a matrix of `rows` rows of `k` elements at their places. What pads them is 0.
void fill_scales(const Gpu&, const View&, const reference::FloatScales& scales, std::size_t rows, std::size_t k);

/// Adds all words, each mixed with its position, modulo 2^64; the result does not depend on the order.
void add_checksum(const Gpu&, const std::uint64_t* words, std::size_t count, unsigned long long* sum);

// Digests ------------------------------------------------------------------------------------------------------------

/// Returns digest_of the bytes, computed on the GPU; nullopt for more than most_digested. The bytes start at a multiple
/// of 16 bytes.
std::optional<std::uint64_t> digest_of(const Gpu&, const View&);

// Collectives --------------------------------------------------------------------------------------------------------

/// The content of a buffer of a sum: the input of one rank, or the sum over all ranks, starting with element `first`.
struct AddendPattern {
  static constexpr int all_ranks = -1;

  reference::Addends addends;
  int rank = all_ranks;
  std::uint64_t first = 0;

  constexpr std::int64_t at(std::uint64_t i) const {
    return rank == all_ranks ? addends.sum(first + i) : addends.at(first + i, rank);
  }
};

/// Types: f32, f16, bf16. Errors: std::invalid_argument for other types.
void fill_addends(const Gpu&, const View&, DType, const AddendPattern&);
Check check_addends(const Gpu&, const View&, DType, const AddendPattern&);

void fill_parts(const Gpu&, const View&, const reference::Parts&);
Check check_parts(const Gpu&, const View&, const reference::Parts&);

// Trails of outputs --------------------------------------------------------------------------------------------------

/// Returns the output of the last operation. `whole` is the buffer of all places.
inline View last_output(const View& whole, const Trail& trail) { return whole.part(trail.last(), trail.bytes()); }

/// Prepares the trail for a number of operations and poisons their outputs; returns when that is done.
void stage_trail(const Gpu&, const View& whole, Trail&, int operations, int poison_byte);

/// Counts the operations of the series whose outputs begin with the same bits as the last one's, and adds the result to
/// the check.
void check_trail(const Gpu&, const View& whole, const Trail&, Check&);

// Counters of the checks -------------------------------------------------------------------------------------------

Tally count_wrong(const Gpu&, const View&, const WordPattern&);
Tally count_wrong(const Gpu&, const View&, DType, const AddendPattern&);
Tally count_wrong(const Gpu&, const View&, const reference::Parts&);

}  // namespace shakedown::cuda
