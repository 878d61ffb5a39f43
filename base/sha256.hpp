// SHA-256 (FIPS 180-4), so that who receives a file can prove that it is the one that was sent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shakedown {

/// 64 hexadecimal digits, as sha256sum prints them.
std::string sha256(std::string_view bytes);

/// Returns two digits for each byte.
std::string hexadecimal(std::string_view bytes);

/// Returns at most 256 bytes that cannot be guessed. Errors: std::system_error.
std::string random_bytes(std::size_t count);

}  // namespace shakedown
