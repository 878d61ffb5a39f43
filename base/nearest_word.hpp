// The word that a user may have meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// Returns the candidate with the fewest letters to insert, remove, replace or swap with a neighbour; nullopt if that
/// is more than a third of the word's letters.
std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// " (did you mean X?)", or "" without such a candidate.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace shakedown
