#include "thresholds/wording.hpp"

#include <array>
#include <cstdio>

namespace shakedown {

std::string formatted(const char* format, double value) {
  std::array<char, 352> text{};  // of any double without an exponent
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string percent_text(double share) { return formatted("%.1f %%", 100 * share); }
std::string rounded(double value) { return formatted("%.0f", value); }

std::string listed(const std::vector<std::string>& words, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? last : ", ") + words[i];
  }
  return text;
}

std::string one_line(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // Those of Latin-1 are two bytes of UTF-8.
    const bool latin = c == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
    if (latin) text.erase(i, 1);
    if (latin || c < 0x20 || c == 0x7f) text[i] = c == '\n' ? ' ' : '?';
  }
  return text;
}

std::string plural(std::size_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

}  // namespace shakedown
