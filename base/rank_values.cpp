#include "base/rank_values.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace shakedown {

namespace {

static_assert(std::endian::native == std::endian::little, "a code is the first bytes of a number");

std::uint64_t bits_of(OptionalDouble value) { return std::bit_cast<std::uint64_t>(value); }

}  // namespace

OptionalDouble RankValues::at(std::size_t i) const {
  if (i >= size()) throw std::out_of_range("RankValues::at");
  return (*this)[i];
}

OptionalDouble RankValues::compressed(std::size_t i) const {
  std::uint64_t code = 0;
  std::memcpy(&code, bytes_.data() + i * width_, sizeof code);
  code &= mask_;
  if (code < missing_codes_) return std::nullopt;
  return std::bit_cast<OptionalDouble>(least_ + ((code - missing_codes_) << shift_));
}

void RankValues::compress() {
  if (values_.empty()) return;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max(), most = 0, differences = 0, missing = 0;
  for (const OptionalDouble value : values_) {
    if (!value) {
      missing = 1;
      continue;
    }
    least = std::min(least, bits_of(value));
    most = std::max(most, bits_of(value));
  }
  for (const OptionalDouble value : values_) differences |= value ? bits_of(value) - least : 0;
  const auto shift = differences == 0 ? 0U : static_cast<unsigned>(std::countr_zero(differences));
  const std::uint64_t largest = most < least ? 0 : (most - least) >> shift;
  constexpr int max_bits = 55;  // of 8 bytes, compression must save at least one
  if (std::bit_width(largest) > max_bits) return;
  const auto width = static_cast<unsigned>(std::bit_width(largest + missing) + 7) / 8;
  // Each code is copied as 8 bytes. The next code replaces those that it does not need.
  std::vector<unsigned char> bytes(values_.size() * width + sizeof largest);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::uint64_t code = values_[i] ? ((bits_of(values_[i]) - least) >> shift) + missing : 0;
    std::memcpy(bytes.data() + i * width, &code, sizeof code);
  }
  count_ = values_.size();
  bytes_ = std::move(bytes);
  least_ = least;
  mask_ = (std::uint64_t{1} << 8 * width) - 1;
  missing_codes_ = missing;
  width_ = width;
  shift_ = shift;
  values_ = std::vector<OptionalDouble>();  // frees the memory, unlike = {}
}

std::vector<OptionalDouble>& RankValues::restored() {
  if (bytes_.empty()) return values_;
  values_.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) values_.push_back(compressed(i));
  bytes_ = std::vector<unsigned char>();
  return values_;
}

bool operator==(const RankValues& a, const RankValues& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace shakedown
