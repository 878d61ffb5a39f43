// The name under which a measurement is registered, stored and judged: "gemm/dtype:bf16/m:8192", a family and named
// parts. Operations build keys, the judge reads them.
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
  /// Of any text; a part without a colon is a name without a value.
  static Key parse(std::string_view text);

  /// Sets a part that is there, adds one that is not behind the others.
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
  /// What is not the default comes last, so that names stay what they were when a variant is added.
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

/// "gemm" of "gemm/dtype:bf16".
std::string family_of(std::string_view key);

/// The families that a run or a judgement is restricted to; no names mean every family.
struct FamilySet {
  std::vector<std::string> names;

  bool all() const { return names.empty(); }
  bool contains(std::string_view family) const {
    return all() || std::find(names.begin(), names.end(), family) != names.end();
  }
  bool has_key(std::string_view key) const { return all() || contains(family_of(key)); }
  friend bool operator==(const FamilySet&, const FamilySet&) = default;
};

/// The value of a part; empty if it is not there.
std::string_view key_part(std::string_view key, std::string_view name);

/// The whole number that a part is; nothing if it is not there or something else ("src:*").
std::optional<long long> key_number(std::string_view key, std::string_view name);

/// The key with another value for a part that it has.
std::string with_part(std::string_view key, std::string_view name, std::string_view value);

}  // namespace shakedown
