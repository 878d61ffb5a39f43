// The words of a command.
#pragma once

#include <string>
#include <vector>

namespace shakedown {

using Words = std::vector<std::string>;

inline void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

}  // namespace shakedown
