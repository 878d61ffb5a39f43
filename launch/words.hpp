// The words of a command.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace shakedown {

using Words = std::vector<std::string>;

/// Returns the words of a text, which blanks separate.
inline Words words_in(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

inline void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

}  // namespace shakedown
