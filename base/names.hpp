// The words of an enum, defined next to it and nowhere else, one for each value in order:
//   enum class Trend { better, worse };
//   constexpr auto words(Trend) { return names("better", "worse"); }
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace shakedown {

template <class... Words>
constexpr std::array<std::string_view, sizeof...(Words)> names(const Words&... words) {
  return {words...};
}

/// An enum that has words.
template <class Enum>
concept Named = std::is_enum_v<Enum> && requires(Enum value) {
  words(value).size();
};

/// Returns the word of a value; "?" if the number is not a value of the enum.
template <Named Enum>
constexpr std::string_view name(Enum value) {
  constexpr auto all = words(Enum{});
  const auto at = static_cast<std::size_t>(value);
  return at < all.size() ? all[at] : "?";
}

/// Returns the value that a word stands for; nullopt if no value has this word.
template <Named Enum>
constexpr std::optional<Enum> named(std::string_view word) {
  constexpr auto all = words(Enum{});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == word) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace shakedown
