// SHA-256 (FIPS 180-4), with which a user can check that a received file was not changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shakedown {

/// Computes the digest of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  /// Returns the digest of all bytes as 64 hexadecimal digits, like sha256sum.
  std::string digest() const;

 private:
  static constexpr std::size_t block_size = 64;

  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, block_size> rest_{};  // bytes that do not fill a block
  std::uint64_t size_ = 0;
};

/// Returns the SHA-256 digest of these bytes as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

/// Returns two hexadecimal digits for each byte.
std::string hexadecimal(std::string_view bytes);

/// Returns unpredictable bytes; `count` is at most 256. Errors: std::system_error.
std::string random_bytes(std::size_t count);

}  // namespace shakedown
