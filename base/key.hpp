// The key under which a measurement is registered, stored and judged. A key has a family and named parts:
// "gemm/dtype:bf16/m:8192". Operations build keys, and the judge parses them.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/names.hpp"

namespace shakedown {

/// A type that converts to text but is not a Key.
template <class Text>
concept KeyText = !std::same_as<Text, class Key> && std::convertible_to<const Text&, std::string_view>;

class Key {
 public:
  using Part = std::pair<std::string, std::string>;  // name and value

  Key() = default;
  /// Parses any text. A part without a colon becomes a name with an empty value.
  explicit Key(std::string_view text);

  /// Sets the value of a part, or appends the part if the key does not have it.
  template <class Value>
  Key& set(std::string_view name, const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>) {
      return put(name, std::to_string(value));
    } else if constexpr (Named<Value>) {
      return put(name, std::string(shakedown::name(value)));
    } else {
      return put(name, std::string(value));
    }
  }
  template <class Value>
  Key& set(std::string_view name, const std::optional<Value>& value) {
    return value ? set(name, *value) : *this;
  }
  /// Sets the values of several parts with one copy of the key.
  Key& set_all(std::initializer_list<std::pair<std::string_view, std::string>> values);
  /// Appends a part only if its value differs from the default. A new variant then does not change existing keys.
  template <class Value>
  Key& set_unless(const std::type_identity_t<Value>& usual, std::string_view name, const Value& value) {
    return value == usual ? *this : set(name, value);
  }

  const std::string& family() const { return content().family; }
  const std::vector<Part>& parts() const& { return content().parts; }
  std::vector<Part> parts() && { return content().parts; }
  const std::string& text() const { return content().text; }

  /// Returns the value of a part; empty if the key does not have it.
  std::string_view part(std::string_view name) const;
  /// Returns the integer value of a part; nullopt if the part is missing or not an integer ("src:*").
  std::optional<long long> number(std::string_view name) const;
  /// Returns the key with another value for one of its parts.
  Key with(std::string_view name, std::string_view value) const;

  /// Converts to text for files and messages, which only need the name of the measurement.
  operator const std::string&() const { return text(); }
  operator std::string_view() const { return text(); }

  friend bool operator==(const Key& a, const Key& b) { return a.content_ == b.content_ || a.text() == b.text(); }
  friend auto operator<=>(const Key& a, const Key& b) {
    return a.content_ == b.content_ ? std::strong_ordering::equal : a.text() <=> b.text();
  }
  template <KeyText Text>
  friend bool operator==(const Key& a, const Text& b) {
    return a.text() == std::string_view(b);
  }
  template <KeyText Text>
  friend auto operator<=>(const Key& a, const Text& b) {
    return std::string_view(a.text()) <=> std::string_view(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const Key& key) { return out << key.text(); }

 private:
  struct Content {
    std::string text, family;
    std::vector<Part> parts;
  };

  Key& put(std::string_view name, std::string value) { return set_all({{name, std::move(value)}}); }
  const Content& content() const { return content_ ? *content_ : no_content(); }
  static const Content& no_content();

  std::shared_ptr<const Content> content_;  // shared by copies, of which a judgement makes 100,000; null: no text
};

/// Returns the family of a key: "gemm" for "gemm/dtype:bf16".
std::string family_of(std::string_view key);

/// The families to which a run or a judgement is limited. If `names` is empty, all families are included.
struct FamilySet {
  std::vector<std::string> names;

  bool all() const { return names.empty(); }
  bool contains(std::string_view family) const {
    return all() || std::find(names.begin(), names.end(), family) != names.end();
  }
  bool has_key(std::string_view key) const { return all() || contains(family_of(key)); }
  friend bool operator==(const FamilySet&, const FamilySet&) = default;
};

/// Returns the value of a part; empty if the key does not have it.
std::string_view key_part(std::string_view key, std::string_view name);

/// Returns the integer value of a part; nullopt if it is missing or not an integer ("src:*").
std::optional<long long> key_number(std::string_view key, std::string_view name);

}  // namespace shakedown
