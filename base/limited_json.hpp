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

/// Parses JSON of at most 64 levels, so that functions that follow its levels do not overflow the stack. A schema of a
/// function has about ten levels.
template <class Json>
Json limited_json(std::string_view text, WrongJson wrong = WrongJson::is_discarded) {
  constexpr int max_depth = 64;
  bool is_deep = false;
  const auto limit = [&](int depth, typename Json::parse_event_t, Json&) {
    is_deep = is_deep || depth > max_depth;
    return !is_deep;
  };
  auto json = Json::parse(text.begin(), text.end(), limit, wrong == WrongJson::throws);
  if (!is_deep) return json;
  if (wrong == WrongJson::throws)
    throw std::invalid_argument(fmt::format("has more than {} levels; correct the line", max_depth));
  return Json(Json::value_t::discarded);
}

}  // namespace shakedown
