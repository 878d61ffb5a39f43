#include "thresholds/results/json_tokens.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

namespace shakedown {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_number(char c) { return is_digit(c) || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'; }
/// True for bytes of a string that stand for themselves.
bool is_literal(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

enum class NumberKind { none, integer, real };

/// Returns the kind of a number by the grammar of RFC 8259, section 6.
NumberKind kind_of(std::string_view text) {
  const char *at = text.data(), *const end = at + text.size();
  const auto skip_digits = [&] {
    const char* const begin = at;
    while (at != end && is_digit(*at)) ++at;
    return at != begin;
  };
  if (at != end && *at == '-') ++at;
  const bool is_zero = at != end && *at == '0';
  if (is_zero) ++at;
  if (!is_zero && !skip_digits()) return NumberKind::none;
  if (at == end) return NumberKind::integer;
  if (*at == '.') {
    ++at;
    if (!skip_digits()) return NumberKind::none;
  }
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    if (at != end && (*at == '+' || *at == '-')) ++at;
    if (!skip_digits()) return NumberKind::none;
  }
  return at == end ? NumberKind::real : NumberKind::none;
}

template <class Number>
std::optional<Number> converted(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// Returns the value of a number with at most 15 digits and without an exponent, such as 1978.0. Its digits and the
/// power of ten are exact, so their quotient is the nearest value (Clinger, How to read floating point numbers
/// accurately, 1990). nullopt for other numbers.
std::optional<double> short_real(std::string_view text) {
  constexpr std::array<double, 16> powers{1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const bool is_negative = text.front() == '-';
  text.remove_prefix(is_negative ? 1 : 0);
  if (text.size() > powers.size()) return std::nullopt;
  std::uint64_t digits = 0;
  std::size_t after_point = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      after_point = text.size() - i - 1;
    } else if (is_digit(text[i])) {
      digits = 10 * digits + static_cast<std::uint64_t>(text[i] - '0');
    } else {
      return std::nullopt;
    }
  }
  if (digits > std::uint64_t{1} << 53) return std::nullopt;
  const double value = static_cast<double>(digits) / powers[after_point];
  return is_negative ? -value : value;
}

/// Returns the value of a number that has the grammar of JSON; nullopt if it is too large.
std::optional<double> real_of(std::string_view text) {
  if (const auto value = short_real(text)) return value;
  if (const auto value = converted<double>(text)) return value;
  const double value = std::strtod(std::string(text).c_str(), nullptr);  // from_chars has no value for tiny numbers
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<JsonNumber> number_of(std::string_view text) {
  const NumberKind kind = kind_of(text);
  if (kind == NumberKind::none) return std::nullopt;
  if (kind == NumberKind::integer) {
    if (text.front() == '-') {
      if (const auto value = converted<std::int64_t>(text)) return *value;
    } else if (const auto value = converted<std::uint64_t>(text)) {
      return *value;
    }
  }
  const auto value = real_of(text);
  return value ? std::optional<JsonNumber>(*value) : std::nullopt;
}

/// Appends the UTF-8 of a code point.
void append(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto put_rest = [&](int shift) { put(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put_rest(12);
    }
    put_rest(6);
  }
  put_rest(0);
}

}  // namespace

bool JsonTokens::read() {
  const std::string_view piece = next_();
  at_ = piece.data();
  end_ = at_ + piece.size();
  size_ += piece.size();
  return !piece.empty();
}

bool JsonTokens::skip_mark() { return !has_more() || *at_ != '\xef' || take_word("\xef\xbb\xbf"); }

std::optional<char> JsonTokens::peek() {
  while (has_more()) {
    if (!is_space(*at_)) return *at_;
    ++at_;
  }
  return std::nullopt;
}

bool JsonTokens::take(char byte) {
  if (peek() != byte) return false;
  ++at_;
  return true;
}

bool JsonTokens::take_word(std::string_view word) {
  return std::ranges::all_of(word, [&](char byte) {
    const bool is_next = has_more() && *at_ == byte;
    if (is_next) ++at_;
    return is_next;
  });
}

std::optional<JsonNumber> JsonTokens::read_number() {
  const char* const begin = at_;
  at_ = std::find_if_not(at_, end_, is_of_number);
  if (at_ != end_) return number_of({begin, at_});
  digits_.assign(begin, at_);
  for (; has_more() && is_of_number(*at_); ++at_) digits_ += *at_;
  return number_of(digits_);
}

bool JsonTokens::read_string(std::string& text) {
  ++at_;
  text.clear();
  while (has_more()) {
    const char* const begin = at_;
    at_ = std::find_if_not(at_, end_, is_literal);
    text.append(begin, at_);
    if (at_ == end_) continue;
    if (*at_ == '"') {
      ++at_;
      return true;
    }
    if (!(*at_ == '\\' ? read_escape(text) : read_character(text))) return false;
  }
  return false;
}

bool JsonTokens::read_escape(std::string& text) {
  constexpr std::string_view escapes = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  ++at_;
  if (!has_more()) return false;
  if (const auto known = escapes.find(*at_); known != std::string_view::npos) {
    text += meanings[known];
    ++at_;
    return true;
  }
  std::uint32_t code = 0, low = 0;
  if (!read_unit(code)) return false;
  const bool is_low = code >= 0xdc00 && code < 0xe000, is_high = code >= 0xd800 && code < 0xdc00;
  if (is_low) return false;
  if (is_high) {
    if (!take_word("\\") || !read_unit(low) || low < 0xdc00 || low >= 0xe000) return false;
    code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
  }
  append(text, code);
  return true;
}

/// Reads the "u00e9" of an escape.
bool JsonTokens::read_unit(std::uint32_t& unit) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (!take_word("u")) return false;
  for (int i = 0; i < 4; ++i) {
    if (!has_more()) return false;
    const auto digit = digits.find(*at_ >= 'A' && *at_ <= 'F' ? static_cast<char>(*at_ - 'A' + 'a') : *at_);
    if (digit == std::string_view::npos) return false;
    unit = unit << 4 | static_cast<std::uint32_t>(digit);
    ++at_;
  }
  return true;
}

/// Reads a character of several bytes. Which bytes may follow the first: RFC 3629, section 4.
bool JsonTokens::read_character(std::string& text) {
  const auto first = static_cast<unsigned char>(*at_);
  const int more = first >= 0xc2 && first < 0xe0   ? 1
                   : first >= 0xe0 && first < 0xf0 ? 2
                   : first >= 0xf0 && first < 0xf5 ? 3
                                                   : 0;
  if (more == 0) return false;
  unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  text += *at_++;
  for (int i = 0; i < more; ++i) {
    if (!has_more()) return false;
    const auto byte = static_cast<unsigned char>(*at_);
    if (byte < least || byte > most) return false;
    text += *at_++;
    least = 0x80;
    most = 0xbf;
  }
  return true;
}

}  // namespace shakedown
