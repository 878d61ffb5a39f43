#include "base/sha256.hpp"

#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

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

const std::array<std::uint32_t, 64>& round_constants() {
  static const auto constants = fractions_of_primes<64>([](long double x) { return std::cbrt(x); });
  return constants;
}

void mix_block(State& state, const unsigned char* block) {
  const auto& k = round_constants();
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

#ifdef __x86_64__

/// True if the processor has the instructions for SHA-256. Intel since Ice Lake and AMD since Zen have them.
bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned ssse3 = 1U << 9, sse4_1 = 1U << 19, sha = 1U << 29;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & ssse3) == 0 || (c & sse4_1) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & sha) != 0;
}

/// Computes four rounds for each pair of instructions (Intel 64 manual, SHA256RNDS2). A register has its first word in
/// the lowest lane, but the state from the highest lane on.
__attribute__((target("sha,sse4.1"))) void mix_by_instructions(State& state, const unsigned char* data,
                                                               std::size_t blocks) {
  const auto* from = reinterpret_cast<const __m128i*>(data);
  const auto* constants = reinterpret_cast<const __m128i*>(round_constants().data());
  const __m128i to_big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto word = [&](std::size_t i) { return static_cast<int>(state[i]); };
  __m128i abef = _mm_set_epi32(word(0), word(1), word(4), word(5));
  __m128i cdgh = _mm_set_epi32(word(2), word(3), word(6), word(7));
  for (; blocks > 0; --blocks, from += 4) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];      // not std::array, which would drop the alignment of the type
#pragma GCC unroll 16  // so that the words stay in registers
    for (std::size_t i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      const __m128i &next = w[(i + 1) % 4], &before_last = w[(i + 2) % 4], &last = w[(i + 3) % 4];
      now = i < 4 ? _mm_shuffle_epi8(_mm_loadu_si128(from + i), to_big_endian)
                  : _mm_sha256msg2_epu32(
                        _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, before_last, 4)), last);
      const __m128i sum = _mm_add_epi32(now, _mm_loadu_si128(constants + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  std::array<std::uint32_t, 4> feba{}, hgdc{};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(feba.data()), abef);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(hgdc.data()), cdgh);
  state = {feba[3], feba[2], hgdc[3], hgdc[2], feba[1], feba[0], hgdc[1], hgdc[0]};
}

#endif

void mix(State& state, const unsigned char* data, std::size_t blocks) {
#ifdef __x86_64__
  static const bool by_instructions = has_instructions();
  if (by_instructions) return mix_by_instructions(state, data, blocks);
#endif
  for (std::size_t i = 0; i < blocks; ++i) mix_block(state, data + 64 * i);
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
    mix(state_, rest_.data(), 1);
  }
  const std::size_t blocks = left / block_size;
  mix(state_, data, blocks);
  take(blocks * block_size);
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
  // Without instructions, so that every digest depends on both implementations.
  for (std::size_t at = 0; at < end; at += block_size) mix_block(state, rest.data() + at);
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
