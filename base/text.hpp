// Words, numbers and tables as people read them.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shakedown {

/// "a, b, c" of any range of texts; with `last` "a, b and c".
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

/// "1 rank", "2 ranks"
std::string plural(std::integral auto n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string percent_text(double share);     // 0.123: "12.3 %"
std::string lower(std::string_view ascii);  // "NO REFERENCE": "no reference"

/// Valid UTF-8 without control characters, and without those that turn the order of reading: each becomes '?', and so
/// does a byte that is no UTF-8. A name cannot move the cursor, nor look like another one. Newlines stay.
std::string printable(std::string_view text);

/// The same in one line: newlines become spaces.
std::string one_line(std::string_view text);

/// ASCII letters, digits and `others` only, and not empty: a word that a shell takes as it is.
bool is_plain(std::string_view word, std::string_view others);

/// How many columns printable text takes: its code points.
std::size_t columns(std::string_view text);

/// Lines of at most `width` columns (3 or more), broken after a '/' or at a blank where there is one; all but the first
/// are indented.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// Rows of cells. Column widths follow the content, so that nothing is cut off and a table of short names stays narrow.
class Table {
 public:
  enum class Tone { plain, good, bad, doubtful };
  struct Cell {
    std::string text;
    Tone tone = Tone::plain;
  };
  struct Style {
    bool color = false;
    std::size_t width = 0;  // cells wrap so that the table fits into it; 0: as wide as it is
    std::size_t gap = 2;
    std::string indent = {};
    bool grid = false;  // all columns but the first are equally wide and set to the right
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
