// The key under which a measurement is registered, stored and judged: a family and named parts,
// "gemm/dtype:bf16/m:8192". Operations build keys; the judge parses them.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/names.hpp"

namespace shakedown {

class Key {
 public:
  explicit Key(std::string family) : family_(std::move(family)) {}
  /// Parses any text. A part without a colon becomes a name without a value.
  static Key parse(std::string_view text);

  /// Sets the value of a part, or appends the part if the key does not have it.
  template <class Value>
  Key& set(std::string_view name, const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>) {
      at(name) = std::to_string(value);
    } else if constexpr (Named<Value>) {
      at(name) = shakedown::name(value);
    } else {
      at(name) = value;
    }
    return *this;
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
  const std::vector<std::pair<std::string, std::string>>& parts() const& { return parts_; }
  std::vector<std::pair<std::string, std::string>> parts() && { return std::move(parts_); }
  std::string text() const;

 private:
  std::string& at(std::string_view name);

  std::string family_;
  std::vector<std::pair<std::string, std::string>> parts_;
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

/// Returns the key with a new value for a part; unchanged if the key does not have the part.
std::string with_part(std::string_view key, std::string_view name, std::string_view value);

}  // namespace shakedown
