// Reads variables of the environment that choose a launch.
#pragma once

#include <optional>
#include <string>

#include "base/files.hpp"
#include "base/parse_number.hpp"
#include "base/environment.hpp"

namespace shakedown {

/// Returns the value of a variable; nullopt if it is not set or empty.
inline std::optional<std::string> set_in(const Environment& environment, const std::string& name) {
  auto value = environment(name);
  return value && !value->empty() ? value : std::nullopt;
}

/// Returns the number in a text. Errors: InputError, which names `what`, if the text is not a number from 0 on.
inline int number_of(const std::string& text, const std::string& what) {
  const auto value = whole_number<int>(text);
  if (value.value_or(-1) < 0) throw InputError(what + "=" + text + " is not a number: correct or unset it");
  return *value;
}

/// Returns the number in a variable, or `otherwise` if it is not set.
inline int number_in(const Environment& environment, const std::string& name, int otherwise) {
  const auto text = set_in(environment, name);
  return text ? number_of(*text, name) : otherwise;
}

}  // namespace shakedown
