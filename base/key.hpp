// The key under which a measurement is registered, stored and judged: a family and named parts,
// "gemm/dtype:bf16/m:8192". Operations build keys; the judge parses them.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/names.hpp"

namespace shakedown {

/// A key that is not parsed.
template <class Text>
concept KeyText = !std::same_as<Text, class Key> && std::convertible_to<const Text&, std::string_view>;

class Key {
 public:
  using Part = std::pair<std::string, std::string>;  // name and value

  Key() = default;
  /// Parses any text; a part without a colon is a name without a value.
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
  /// Appends a part only if it differs from its default. Existing keys stay the same when a variant is added.
  template <class Value>
  Key& set_unless(const std::type_identity_t<Value>& usual, std::string_view name, const Value& value) {
    return value == usual ? *this : set(name, value);
  }

  const std::string& family() const { return family_; }
  const std::vector<Part>& parts() const& { return parts_; }
  std::vector<Part> parts() && { return std::move(parts_); }
  const std::string& text() const { return text_; }

  /// The value of a part; empty if it is not there.
  std::string_view part(std::string_view name) const;
  /// The whole number that a part is; nullopt if it is not there or something else ("src:*").
  std::optional<long long> number(std::string_view name) const;
  /// The key with another value for a part that it has.
  Key with(std::string_view name, std::string_view value) const;

  /// Where only the name of a measurement is wanted: in files and in messages.
  operator const std::string&() const { return text_; }
  operator std::string_view() const { return text_; }

  friend bool operator==(const Key& a, const Key& b) { return a.text_ == b.text_; }
  friend auto operator<=>(const Key& a, const Key& b) { return a.text_ <=> b.text_; }
  template <KeyText Text>
  friend bool operator==(const Key& a, const Text& b) {
    return a.text_ == std::string_view(b);
  }
  template <KeyText Text>
  friend auto operator<=>(const Key& a, const Text& b) {
    return std::string_view(a.text_) <=> std::string_view(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const Key& key) { return out << key.text_; }

 private:
  Key& put(std::string_view name, std::string value);

  std::string text_, family_;
  std::vector<Part> parts_;
};

/// Returns the family of a key: "gemm" for "gemm/dtype:bf16".
std::string family_of(std::string_view key);

/// The families that a run or a judgement is limited to; no names means all families.
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
