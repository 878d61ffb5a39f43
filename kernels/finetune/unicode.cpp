#include "kernels/finetune/unicode.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <unordered_map>

#include "kernels/finetune/unicode_table.hpp"

namespace shakedown::finetune::unicode {

namespace {

constexpr char32_t replacement = 0xfffd;

// Hangul syllables have formulas instead of tables (The Unicode Standard, 3.12).
constexpr char32_t first_syllable = 0xac00, first_l = 0x1100, first_v = 0x1161, first_t = 0x11a7;
constexpr char32_t l_count = 19, v_count = 21, t_count = 28, syllables = l_count * v_count * t_count;

/// Returns the row [first, last, ...] with this code point; null if there is none.
template <class Rows>
const typename Rows::value_type* row_of(const Rows& rows, char32_t c) {
  const auto after =
      std::upper_bound(rows.begin(), rows.end(), c, [](char32_t x, const auto& row) { return x < row[0]; });
  return after != rows.begin() && c <= std::prev(after)->at(1) ? &*std::prev(after) : nullptr;
}

/// Returns the row whose first number is a code point; null if there is none.
template <class Rows>
const typename Rows::value_type* exact_row(const Rows& rows, char32_t c) {
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), c, [](const auto& row, char32_t x) { return row[0] < x; });
  return found != rows.end() && (*found)[0] == c ? &*found : nullptr;
}

char32_t class_of(char32_t c) {
  const auto* row = c < 0x300 ? nullptr : row_of(classes, c);
  return row == nullptr ? 0 : (*row)[2];
}

void add_decomposed(std::u32string& out, char32_t c) {
  if (c < 0xc0) {
    out += c;
  } else if (c >= first_syllable && c < first_syllable + syllables) {
    const char32_t at = c - first_syllable;
    out += first_l + at / (v_count * t_count);
    out += first_v + at % (v_count * t_count) / t_count;
    if (at % t_count != 0) out += first_t + at % t_count;
  } else {
    const auto* row = exact_row(pairs, c);
    if (row == nullptr) row = exact_row(others, c);
    if (row == nullptr) {
      out += c;
      return;
    }
    add_decomposed(out, (*row)[1]);
    if ((*row)[2] != 0) add_decomposed(out, (*row)[2]);
  }
}

std::optional<char32_t> composition(char32_t first, char32_t second) {
  if (first >= first_l && first < first_l + l_count && second >= first_v && second < first_v + v_count)
    return first_syllable + ((first - first_l) * v_count + (second - first_v)) * t_count;
  if (first >= first_syllable && first < first_syllable + syllables && (first - first_syllable) % t_count == 0 &&
      second > first_t && second < first_t + t_count)
    return first + (second - first_t);
  static const auto by_parts = [] {
    std::unordered_map<std::uint64_t, char32_t> map;
    for (const auto& row : pairs) map.emplace(std::uint64_t{row[1]} << 32 | row[2], row[0]);
    return map;
  }();
  const auto found = by_parts.find(std::uint64_t{first} << 32 | second);
  return found == by_parts.end() ? std::nullopt : std::optional(found->second);
}

/// Sorts each run of marks by its class; marks of the same class keep their order.
void sort_marks(std::u32string& text) {
  for (std::size_t i = 0; i < text.size();) {
    if (class_of(text[i]) == 0) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < text.size() && class_of(text[i]) != 0) ++i;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(i),
                     [](char32_t a, char32_t b) { return class_of(a) < class_of(b); });
  }
}

/// Returns the length of the sequence that begins with this byte, and the limits of its second byte; 0 if no sequence
/// begins with it (The Unicode Standard, table 3-7).
struct Lead {
  int length;
  unsigned char least = 0x80, most = 0xbf;
};
Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xc2 && byte <= 0xdf) return {2};
  if (byte == 0xe0) return {3, 0xa0};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {3};
  if (byte == 0xf0) return {4, 0x90};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  if (byte >= 0xf1 && byte <= 0xf3) return {4};
  return {0};
}

}  // namespace

std::u32string from_utf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    auto [length, least, most] = lead_of(first);
    char32_t code = length == 1 ? first : first & (0x7fU >> length);
    int read = 1;
    for (; read < length && i < text.size(); ++read, ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (byte < least || byte > most) break;
      code = code << 6 | (byte & 0x3fU);
      least = 0x80;
      most = 0xbf;
    }
    out += length != 0 && read == length ? code : replacement;
  }
  return out;
}

void add_utf8(std::string& text, char32_t c) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80U | (c >> shift & 0x3fU)); };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0U | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0U | c >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0U | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) add_utf8(out, c);
  return out;
}

bool is_letter(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return row_of(letters, c) != nullptr;
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return row_of(numbers, c) != nullptr;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::string trimmed(std::string_view text) {
  const auto codes = from_utf8(text);
  const auto is_kept = [](char32_t c) { return !is_space(c) && (c < 0x1c || c > 0x1f); };
  const auto first = std::find_if(codes.begin(), codes.end(), is_kept);
  const auto last = std::find_if(codes.rbegin(), codes.rend(), is_kept).base();
  return first < last ? to_utf8(std::u32string(first, last)) : "";
}

std::u32string composed(std::u32string_view text) {
  // Nothing below U+0300 changes: no such character is a mark, and all composed ones are their own composition.
  if (std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x300; })) return std::u32string(text);
  std::u32string parts;
  for (const char32_t c : text) add_decomposed(parts, c);
  sort_marks(parts);
  std::u32string out;
  std::size_t starter = std::u32string::npos;
  char32_t last_class = 0;  // of what is between the starter and this character
  for (const char32_t c : parts) {
    const char32_t own = class_of(c);
    const bool is_next = starter != std::u32string::npos && starter + 1 == out.size();
    if (starter != std::u32string::npos && (is_next || last_class < own)) {
      if (const auto whole = composition(out[starter], c)) {
        out[starter] = *whole;
        continue;
      }
    }
    if (own == 0) starter = out.size();
    last_class = own;
    out += c;
  }
  return out;
}

}  // namespace shakedown::finetune::unicode
