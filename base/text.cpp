#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace shakedown {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Returns the length in bytes of the UTF-8 sequence at the start of `text`; 0 if it is invalid, overlong or a
// surrogate.
std::size_t sequence(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90) ||
                     (first == 0xc2 && second < 0xa0);  // the last test: control characters of Latin-1
  return wrong ? 0 : length;
}

// True for invisible characters that change how text is displayed: line separators (U+2028, U+2029), marks that change
// the reading order (UAX #9), and the two noncharacters that XML forbids.
bool is_invisible(std::string_view character) {
  const auto between = [&](std::string_view first, std::string_view last) {
    return first <= character && character <= last;
  };
  return character == "\u061c" || between("\u200e", "\u200f") || between("\u2028", "\u202e") ||
         between("\u2066", "\u2069") || between("\xef\xbf\xbe", "\xef\xbf\xbf");
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (true) {
    // Nearly all characters are of this kind, so they are copied together.
    const auto other = std::find_if(text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; });
    out.append(text.begin(), other);
    text.remove_prefix(static_cast<std::size_t>(other - text.begin()));
    if (text.empty()) return out;
    const std::size_t length = sequence(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0 || (c < 0x20 && c != '\n') || c == 0x7f || (length > 1 && is_invisible(text.substr(0, length)))) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

std::string one_line(std::string_view text) {
  std::string line = printable(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string shortened(const std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = text.find_last_of(' ', max_bytes - 3);
  if (end == std::string::npos || end == 0) end = max_bytes - 3;
  // Steps back to the beginning of a code point.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

bool is_plain(std::string_view word, std::string_view others) {
  const std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const auto is_known = [&](char c) { return letters.find(c) != letters.npos || others.find(c) != others.npos; };
  return !word.empty() && std::all_of(word.begin(), word.end(), is_known);
}

std::size_t columns(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += is_continuation(c) ? 0 : 1;
  return n;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string indent;
  while (indent.size() + columns(text) > width) {
    std::size_t fits = 0;
    for (std::size_t left = width - indent.size() + 1; left > 0; ++fits) left -= is_continuation(text[fits]) ? 0 : 1;
    --fits;  // steps back to the first byte of the character that does not fit
    const std::size_t mark = text.substr(0, fits).find_last_of("/ ");
    const std::size_t cut = text[fits] == ' ' || mark == std::string_view::npos ? fits : mark + 1;
    const std::string_view line = text.substr(0, cut);
    lines.push_back(indent + std::string(line.substr(0, line.find_last_not_of(' ') + 1)));
    text.remove_prefix(text[cut] == ' ' ? cut + 1 : cut);
    indent = "  ";
  }
  lines.push_back(indent + std::string(text));
  return lines;
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

std::string lower(std::string_view ascii) {
  std::string text(ascii);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void Table::add_words(const std::vector<std::string>& row) {
  std::vector<Cell> cells;
  for (const auto& word : row) cells.push_back({word});
  add(std::move(cells));
}

void Table::add(std::vector<Cell> row) {
  if (row.empty()) return;
  widths_.resize(std::max(widths_.size(), row.size()));
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i].text = one_line(row[i].text);
    widths_[i] = std::max(widths_[i], columns(row[i].text));
  }
  rows_.push_back(std::move(row));
}

std::string Table::text(const Style& style) const {
  const auto painted = [&](const std::string& text, Tone tone) {
    if (!style.color || tone == Tone::plain || text.empty()) return text;
    return (tone == Tone::good ? "\033[32m" : tone == Tone::bad ? "\033[31m" : "\033[33m") + text + "\033[0m";
  };
  const auto widths = fitted(style);
  std::string out;
  for (const auto& row : rows_) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(wrapped(row[i].text, widths[i]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t k = 0; k < height; ++k) {
      std::string line = style.indent;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string text = k < cells[i].size() ? cells[i][k] : "";
        const std::string padding(widths[i] - columns(text), ' '), cell = painted(text, row[i].tone);
        line += (i > 0 ? std::string(style.gap, ' ') : "") + (style.grid && i > 0 ? padding + cell : cell + padding);
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return out;
}

// Returns the widths of the columns that fit. Shrinks the widest column first.
std::vector<std::size_t> Table::fitted(const Style& style) const {
  constexpr std::size_t min_width = 8;
  auto widths = widths_;
  if (style.grid) std::fill(widths.begin() + 1, widths.end(), *std::max_element(widths.begin() + 1, widths.end()));
  std::size_t all = style.gap * (widths.size() - 1);
  for (const std::size_t width : widths) all += width;
  while (style.width > 0 && all > style.width) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= min_width) break;
    --*widest;
    --all;
  }
  return widths;
}

}  // namespace shakedown
