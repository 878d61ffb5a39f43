// SHA-256 (FIPS 180-4). With it, a user can verify a file that was sent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shakedown {

/// Returns the digest as 64 hexadecimal digits, like sha256sum.
std::string sha256(std::string_view bytes);

/// Returns two hexadecimal digits for each byte.
std::string hexadecimal(std::string_view bytes);

/// Returns unpredictable bytes; `count` is at most 256. Errors: std::system_error.
std::string random_bytes(std::size_t count);

}  // namespace shakedown
