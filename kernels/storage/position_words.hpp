// The data of files: each word depends on its position, the file, and the version of the file. Words that were moved,
// swapped, or left from an earlier version are therefore found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/reference.hpp"

namespace shakedown::storage {

class PositionWords {
 public:
  PositionWords() : base_(chunk_words) {
    for (std::size_t i = 0; i < chunk_words; ++i) base_[i] = reference::mix(i);
  }

  /// Writes words that begin at byte `offset` of a file, which is a multiple of chunk_bytes.
  void fill(std::span<std::uint64_t> words, std::uint64_t file, std::uint64_t version, std::uint64_t offset) const {
    for (std::size_t first = 0; first < words.size(); first += chunk_words) {
      const auto chunk = words.subspan(first, std::min(chunk_words, words.size() - first));
      const auto salt = salt_of(file, version, offset / chunk_bytes + first / chunk_words);
      for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = base_[i] + salt;
    }
  }

  /// Returns the number of these words that are wrong.
  std::size_t wrong(std::span<const std::uint64_t> words, std::uint64_t file, std::uint64_t version,
                    std::uint64_t offset) const {
    std::size_t count = 0;
    for (std::size_t first = 0; first < words.size(); first += chunk_words) {
      const auto chunk = words.subspan(first, std::min(chunk_words, words.size() - first));
      const auto salt = salt_of(file, version, offset / chunk_bytes + first / chunk_words);
      std::uint64_t differences = 0;  // of all words at once, which every processor has instructions for
      for (std::size_t i = 0; i < chunk.size(); ++i) differences |= chunk[i] ^ (base_[i] + salt);
      for (std::size_t i = 0; differences != 0 && i < chunk.size(); ++i) count += chunk[i] != base_[i] + salt ? 1 : 0;
    }
    return count;
  }

  static constexpr std::size_t chunk_words = 2048, chunk_bytes = chunk_words * sizeof(std::uint64_t);  // fits the cache

 private:
  static std::uint64_t salt_of(std::uint64_t file, std::uint64_t version, std::uint64_t chunk) {
    return reference::mix(reference::mix(reference::mix(file) + version) + chunk);
  }

  std::vector<std::uint64_t> base_;
};

}  // namespace shakedown::storage
