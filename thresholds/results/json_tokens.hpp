// The tokens of strict JSON (RFC 8259), from a text that arrives in pieces. Results of 100,000 GPUs have 270 million
// numbers, for which the parser of the JSON library needs three times as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace shakedown {

/// An integer that fits into 64 bits keeps all its digits.
using JsonNumber = std::variant<std::uint64_t, std::int64_t, double>;

class JsonTokens {
 public:
  /// `next` returns the next piece of the text, which is valid until the next call; empty at the end.
  explicit JsonTokens(std::function<std::string_view()> next) : next_(std::move(next)) {}

  /// Skips the mark of UTF-8, with which some editors begin a file. False for only a part of it.
  bool skip_mark();
  /// Skips white space. Returns the next byte; nullopt at the end of the text.
  std::optional<char> peek();
  /// Skips white space, and this byte if it is next. Returns true if it was.
  bool take(char byte);

  /// Read the token that begins at the next byte, which peek() returned. False or nullopt if the text is not strict
  /// JSON there.
  bool take_word(std::string_view word);
  bool read_string(std::string& text);
  std::optional<JsonNumber> read_number();

  /// Returns the number of bytes up to the next one, including it; one more than all bytes at the end of the text.
  std::size_t position() const { return size_ - static_cast<std::size_t>(end_ - at_) + 1; }

 private:
  bool has_more() { return at_ != end_ || read(); }
  bool read();
  bool read_escape(std::string& text);
  bool read_unit(std::uint32_t& unit);
  bool read_character(std::string& text);

  std::function<std::string_view()> next_;
  const char *at_ = nullptr, *end_ = nullptr;
  std::size_t size_ = 0;  // of all pieces until now
  std::string digits_;    // of a number that is in two pieces
};

}  // namespace shakedown
