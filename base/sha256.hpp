// SHA-256 (FIPS 180-4), so that who receives a file can prove that it is the one that was sent.
#pragma once

#include <string>
#include <string_view>

namespace shakedown {

/// 64 hexadecimal digits, as sha256sum prints them.
std::string sha256(std::string_view bytes);

}  // namespace shakedown
