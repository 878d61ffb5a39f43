#include "report/escape.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace shakedown {
std::string markdown_escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '\n': out += ' '; break;
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      // Keeps Markdown renderers from making links of "://" and "www.".
      case '/': out.ends_with(':') ? out.replace(out.size() - 1, 1, "&#58;/") : out += c; break;
      case '.':
        out += lower(out.substr(out.size() - std::min<std::size_t>(out.size(), 3))) == "www" ? "&#46;" : ".";
        break;
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

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
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
