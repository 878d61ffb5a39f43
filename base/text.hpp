// Makes text for users: words, numbers and tables.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shakedown {

/// Returns a list such as "a, b, c" for any range of strings; with `last`, such as "a, b and c".
template <class Words>
std::string joined(const Words& words, std::string_view between = ", ", std::string_view last = {}) {
  std::string text;
  auto left = words.size();
  for (const auto& word : words) {
    if (left != words.size()) text += left == 1 && !last.empty() ? last : between;
    text += word;
    --left;
  }
  return text;
}

/// Returns "1 rank" or "2 ranks".
std::string plural(std::integral auto n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string percent_text(double share);     // 0.123: "12.3 %"
std::string lower(std::string_view ascii);  // Returns "no reference" for "NO REFERENCE".

/// Returns the parts of a text between separators. A separator at its end begins no further part.
std::vector<std::string> split(const std::string& text, char separator);

/// Returns valid UTF-8 that is safe to display: control characters, marks that change the reading order and invalid
/// bytes become '?'. A name can then neither move the cursor nor imitate another name. Newlines are kept.
std::string printable(std::string_view text);

/// Returns printable text in which newlines are replaced by spaces.
std::string one_line(std::string_view text);

/// Returns the text if it has at most `max_bytes` (4 or more). For a longer text, returns its first words and "...".
std::string shortened(const std::string& text, std::size_t max_bytes);

/// True if the word is not empty and has only ASCII letters, digits and the characters of `others`. A shell takes such
/// a word literally.
bool is_plain(std::string_view word, std::string_view others);

/// Returns the width of printable text in columns: its number of code points.
std::size_t columns(std::string_view text);

/// Returns the text as lines of at most `width` columns (3 or more). Breaks after a '/' or at a blank if possible. All
/// lines except the first are indented.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// Rows of cells. A column is as wide as its longest cell, so that no text is cut off.
class Table {
 public:
  enum class Tone { plain, good, bad, doubtful };
  struct Cell {
    std::string text;
    Tone tone = Tone::plain;
  };
  struct Style {
    bool color = false;
    std::size_t width = 0;  // cells wrap to fit the table into this width; 0: no limit
    std::size_t gap = 2;
    std::string indent = {};
    bool grid = false;  // all columns except the first have equal width and are right-aligned
  };

  explicit Table(std::vector<Cell> head = {}) { add(std::move(head)); }

  void add(std::vector<Cell> row);
  void add_words(const std::vector<std::string>& row);
  std::string text(const Style&) const;

 private:
  std::vector<std::size_t> fitted(const Style&) const;

  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace shakedown
