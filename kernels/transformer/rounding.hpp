// Stochastic rounding of a training state to bf16. A value between two neighbouring bf16 numbers becomes the upper one
// with a probability of its distance to the lower one, so that the mean error is 0. Rounding to nearest would lose
// every update that is smaller than half of the distance between neighbours. The random numbers depend only on a seed,
// the step and the position of a value in the model, so equal gradients give equal bits on any number of ranks. The
// same code runs on the host and on the GPU.
#pragma once

#include <cstdint>

namespace shakedown::training {

struct RandomWords {
  std::uint32_t at[4];
};

/// Returns the 128 random bits of a counter: Philox4x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
/// 3"). Seven rounds are the fewest that pass their statistical tests.
constexpr RandomWords philox(RandomWords counter, std::uint64_t key, int rounds = 7) {
  auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter.at[0], b = std::uint64_t{0xCD9E8D57U} * counter.at[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.at[1] ^ low, static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.at[3] ^ high, static_cast<std::uint32_t>(a)}};
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
  return counter;
}

/// The random numbers of an update for four neighbouring values: 16 bits for each value of each array, which are as
/// many as a rounding from f32 to bf16 removes.
class RoundingOfFour {
 public:
  /// `position` is that of one of the four values in the model; the first of them is a multiple of 4.
  constexpr RoundingOfFour(std::uint64_t seed, std::uint64_t step, std::uint64_t position)
      : first_(philox(counter(step, position, 0), seed)), second_(philox(counter(step, position, 1), seed)) {}

  constexpr std::uint32_t parameter(unsigned i) const { return first_.at[i] & 0xffffU; }
  constexpr std::uint32_t first_moment(unsigned i) const { return first_.at[i] >> 16; }
  constexpr std::uint32_t second_moment(unsigned i) const { return second_.at[i] & 0xffffU; }

 private:
  static constexpr RandomWords counter(std::uint64_t step, std::uint64_t position, std::uint32_t which) {
    const auto four = position / 4;
    return {{static_cast<std::uint32_t>(four), static_cast<std::uint32_t>(four >> 32), static_cast<std::uint32_t>(step),
             static_cast<std::uint32_t>(step >> 32) << 1 | which}};
  }

  RandomWords first_, second_;
};

/// Returns the bits of the bf16 number for the bits of an f32 and 16 random bits. A NaN remains a NaN.
constexpr std::uint16_t rounded_at_random(std::uint32_t bits, std::uint32_t random) {
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fff;
  return static_cast<std::uint16_t>((bits + random) >> 16);
}

}  // namespace shakedown::training
