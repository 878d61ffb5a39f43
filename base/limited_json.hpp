// JSON of files that others may have written.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace shakedown {

/// Whether wrong JSON is an exception (Json::parse_error, Json::out_of_range, std::invalid_argument if it is too deep)
/// or a discarded value.
enum class WrongJson { throws, is_discarded };

/// True if some bracket of the JSON is inside `most` others. A callback of the parser would scan the whole parent after
/// each object.
inline bool is_deeper_than(std::string_view text, int most) {
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') is_quoted = !is_quoted;
    if (is_quoted && c == '\\') ++i;
    if (is_quoted) continue;
    if ((c == '{' || c == '[') && ++depth > most) return true;
    if (c == '}' || c == ']') --depth;
  }
  return false;
}

/// Parses JSON of at most 64 levels, so that functions that follow its levels do not overflow the stack. A schema of a
/// function has about ten levels.
template <class Json>
Json limited_json(std::string_view text, WrongJson wrong = WrongJson::is_discarded) {
  constexpr int max_depth = 64;
  if (!is_deeper_than(text, max_depth)) {
    return Json::parse(text.begin(), text.end(), nullptr, wrong == WrongJson::throws);
  }
  if (wrong == WrongJson::throws) {
    throw std::invalid_argument(fmt::format("has more than {} levels; correct the line", max_depth));
  }
  return Json(Json::value_t::discarded);
}

}  // namespace shakedown
