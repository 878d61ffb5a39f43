// Parses numbers without a locale and without exceptions, and rejects texts such as "0x10" and " 1".
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

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

}  // namespace shakedown
