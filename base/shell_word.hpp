// Words of commands for a shell.
#pragma once

#include <string>
#include <string_view>

namespace shakedown {

/// Returns the text in single quotes, so that a shell takes it as one word and expands nothing.
inline std::string shell_word(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace shakedown
