// Parses numbers without a locale and without exceptions, and rejects texts such as "0x10" and " 1".
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shakedown {

/// Returns the number at the beginning of the text; nullopt if there is none.
template <class Number>
std::optional<Number> leading_number(std::string_view text) {
  Number value{};
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() ? std::optional(value)
                                                                                          : std::nullopt;
}

/// Returns the number that the whole text is; nullopt for any other text.
template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Returns the bytes of a size of a message: 65536, 64K, 32M or 1G (powers of 1024). nullopt if the text is no size
/// from 8 bytes to 8 GiB, or no multiple of 8 bytes.
inline std::optional<std::uint64_t> bytes_in(std::string_view text) {
  constexpr std::string_view units = "KMG";
  constexpr int bits_of_unit = 10;
  const auto unit = text.empty() ? units.npos : units.find(text.back());
  if (unit != units.npos) text.remove_suffix(1);
  const auto number = whole_number<std::uint64_t>(text);
  constexpr std::uint64_t max_bytes = std::uint64_t{8} << 30;
  if (!number || *number == 0 || *number > max_bytes) return std::nullopt;
  const int shift = unit == units.npos ? 0 : bits_of_unit * (static_cast<int>(unit) + 1);
  const auto bytes = *number << shift;
  return bytes % 8 == 0 && bytes <= max_bytes && bytes >> shift == *number ? std::optional(bytes) : std::nullopt;
}

/// Returns a size in the largest unit that gives a whole number: "64 KiB".
inline std::string bytes_text(std::uint64_t bytes) {
  for (const auto& [shift, unit] : {std::pair{30, " GiB"}, {20, " MiB"}, {10, " KiB"}}) {
    if (bytes >= std::uint64_t{1} << shift && bytes % (std::uint64_t{1} << shift) == 0) {
      return std::to_string(bytes >> shift) + unit;
    }
  }
  return std::to_string(bytes) + " B";
}

}  // namespace shakedown
