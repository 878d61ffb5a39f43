#include "base/nearest_word.hpp"

#include <algorithm>

namespace shakedown {
namespace {

/// Returns the optimal string alignment distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> nearest;
  std::size_t least = word.size() / 3 + 1;
  for (const auto& candidate : candidates) {
    const auto edits = distance(word, candidate);
    if (edits < least) {
      least = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto nearest = nearest_word(word, candidates);
  return nearest ? " (did you mean " + *nearest + "?)" : "";
}

}  // namespace shakedown
