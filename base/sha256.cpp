#include "base/sha256.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <system_error>

namespace shakedown {
namespace {

/// Returns the first 32 bits of the fractional parts of the roots of the first n primes. These bits are the constants
/// of the standard ("nothing up my sleeve" numbers).
template <std::size_t n>
std::array<std::uint32_t, n> fractions_of_primes(long double (*root)(long double)) {
  std::array<std::uint32_t, n> all{};
  std::size_t found = 0;
  for (unsigned number = 2; found < n; ++number) {
    bool prime = true;
    for (unsigned divisor = 2; divisor * divisor <= number && prime; ++divisor) prime = number % divisor != 0;
    if (!prime) continue;
    const long double value = root(static_cast<long double>(number));
    all[found++] = static_cast<std::uint32_t>((value - std::floor(value)) * 4294967296.0L);
  }
  return all;
}

using State = std::array<std::uint32_t, 8>;

void mix(State& state, const unsigned char* block) {
  static const auto k = fractions_of_primes<64>([](long double x) { return std::cbrt(x); });
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t byte = 0; byte < 4; ++byte) w[i] = w[i] << 8 | block[4 * i + byte];
  }
  for (std::size_t i = 16; i < w.size(); ++i) {
    const auto a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const auto first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i];
    const auto second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const State now{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += now[i];
}

}  // namespace

Sha256::Sha256() : state_(fractions_of_primes<8>([](long double x) { return std::sqrt(x); })) {}

void Sha256::add(std::string_view bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  const auto take = [&](std::size_t count) {
    data += count;
    left -= count;
  };
  const std::size_t filled = size_ % block_size;
  size_ += bytes.size();
  if (filled > 0) {
    const std::size_t count = std::min(left, block_size - filled);
    std::copy_n(data, count, rest_.begin() + static_cast<std::ptrdiff_t>(filled));
    take(count);
    if (filled + count < block_size) return;
    mix(state_, rest_.data());
  }
  for (; left >= block_size; take(block_size)) mix(state_, data);
  std::copy_n(data, left, rest_.begin());
}

std::string Sha256::digest() const {
  State state = state_;
  const std::size_t left = size_ % block_size;
  std::array<unsigned char, 2 * block_size> rest{};
  std::copy_n(rest_.begin(), left, rest.begin());
  rest[left] = 0x80;
  const std::size_t end = left < block_size - 8 ? block_size : 2 * block_size;
  for (std::size_t i = 0; i < 8; ++i) rest[end - 1 - i] = static_cast<unsigned char>(size_ * 8 >> 8 * i);
  for (std::size_t at = 0; at < end; at += block_size) mix(state, rest.data() + at);
  std::array<char, block_size + 1> text{};
  for (std::size_t i = 0; i < state.size(); ++i) std::snprintf(text.data() + 8 * i, 9, "%08x", state[i]);
  return text.data();
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.digest();
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    for (const int shift : {4, 0}) text += "0123456789abcdef"[static_cast<unsigned char>(c) >> shift & 15];
  }
  return text;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (getentropy(bytes.data(), count) == 0) return bytes;
  throw std::system_error(errno, std::generic_category(), "getentropy");
}

}  // namespace shakedown
