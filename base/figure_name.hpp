// The name of a figure that is stored outside of its result: the key of the row, and a word after a blank:
// "gemm/dtype:bf16 tflops". The word is a metric, or the algorithm that computed the bits of the row.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/key.hpp"

namespace shakedown {

/// Only this class divides the text. It parses the key on request, because a ledger has millions of names.
class FigureName {
 public:
  /// Reads any text. Without a blank, the word is empty.
  explicit FigureName(std::string text)
      : text_(std::move(text)), end_of_key_(std::min(text_.find(' '), text_.size())) {}
  FigureName(const Key& key, std::string_view word) : text_(key.text() + " "), end_of_key_(key.text().size()) {
    text_ += word;
  }

  Key key() const { return Key(key_text()); }
  std::string_view key_text() const { return std::string_view(text_).substr(0, end_of_key_); }
  std::string_view word() const { return std::string_view(text_).substr(std::min(end_of_key_ + 1, text_.size())); }
  const std::string& text() const { return text_; }

  friend bool operator==(const FigureName& a, const FigureName& b) { return a.text_ == b.text_; }
  friend auto operator<=>(const FigureName& a, const FigureName& b) { return a.text_ <=> b.text_; }

 private:
  std::string text_;
  std::size_t end_of_key_;
};

/// Calls `member` with these figures by their text, as files have them. If `member` returns true, it has read the
/// figures that take their place.
template <class Value, class Member>
void by_text(std::map<FigureName, Value>& figures, const Member& member) {
  std::map<std::string, Value> texts;
  for (const auto& [name, value] : figures) texts.emplace_hint(texts.end(), name.text(), value);
  if (!member(texts)) return;
  figures.clear();
  for (auto& [text, value] : texts) figures.emplace_hint(figures.end(), FigureName(text), std::move(value));
}

}  // namespace shakedown
