// Decides which characters may be shown. Tested by tests/report_test.cpp (build/tests/report_test).
#include "report/escape.hpp"

namespace shakedown {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Bytes of the UTF-8 sequence at the start of `text`; 0 if it is none. Long forms and surrogates are none.
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
                     (first == 0xc2 && second < 0xa0);  // the last: control characters of Latin-1
  return wrong ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = sequence(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0 || (c < 0x20 && c != '\n') || c == 0x7f) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::size_t columns(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += is_continuation(c) ? 0 : 1;
  return n;
}

std::string shortened(std::string_view text, std::size_t width) {
  const std::size_t have = columns(text);
  if (have <= width) return std::string(text);
  if (width <= 2) return std::string(width, '.');
  const std::size_t head = (width - 2) / 2, tail = width - 2 - head;
  std::string front, back;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && !is_continuation(text[i])) ++column;
    if (column < head) front += text[i];
    if (column >= have - tail) back += text[i];
  }
  return front + ".." + back;
}

std::string markdown_escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '\n': out += ' '; break;
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\\':
      case '`':
      case '*':
      case '_':
      case '[':
      case ']':
      case '|':
      case '~':
      case '@': out += '\\'; [[fallthrough]];
      default: out += c;
    }
  }
  return out;
}

std::string label_escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace shakedown
