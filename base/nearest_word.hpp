// Suggests the word that a user may have meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// Returns the candidate that needs the fewest insertions, removals, replacements or swaps of neighbouring letters.
/// nullopt if these are more than a third of the letters of the word.
std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// Returns " (did you mean X?)"; empty if no candidate is near enough.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace shakedown
