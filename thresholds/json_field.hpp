// A member of a result file and where it stands, so that an error names the file and the member.
// Private to thresholds/*.cpp and report/*.cpp: it needs nlohmann_json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "thresholds/results.hpp"
#include "thresholds/wording.hpp"

namespace shakedown {

/// Errors: InputError for a file that is missing, empty, cut off or not strict JSON. Defined in results.cpp.
nlohmann::json read_json(const std::filesystem::path& file);

class Field {
 public:
  using json = nlohmann::json;

  Field(const std::filesystem::path& file, std::string where, const json& value)
      : file_(&file), where_(std::move(where)), value_(&value) {}

  const std::filesystem::path& file() const { return *file_; }
  const json& value() const { return *value_; }

  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(file_->string() + ": " + (where_.empty() ? "" : where_ + ": ") + what);
  }

  void require_object() const {
    if (!value_->is_object()) refuse("expected an object");
  }

  /// A member that must be there.
  Field operator[](const char* name) const {
    require_object();
    const auto member = value_->find(name);
    if (member == value_->end()) Field(*file_, path_of(name), *value_).refuse("is missing");
    return {*file_, path_of(name), *member};
  }

  /// nullopt if it is absent or null.
  std::optional<Field> find(const char* name) const {
    require_object();
    const auto member = value_->find(name);
    if (member == value_->end() || member->is_null()) return std::nullopt;
    return Field(*file_, path_of(name), *member);
  }

  template <class Visitor>
  void each(Visitor visit) const {
    if (!value_->is_array()) refuse("expected an array");
    std::size_t i = 0;
    for (const json& item : *value_) visit(Field(*file_, where_ + "[" + std::to_string(i++) + "]", item));
  }

  /// In one line: what a host, a row or an error is called shall not look like another line of whatever shows it.
  std::string text() const {
    if (!value_->is_string()) refuse("expected a string");
    return one_line(value_->get<std::string>());
  }
  std::string text_or_empty() const { return value_->is_null() ? "" : text(); }
  bool boolean() const {
    if (!value_->is_boolean()) refuse("expected true or false");
    return value_->get<bool>();
  }
  double number() const {
    if (!value_->is_number()) refuse("expected a number");
    return value_->get<double>();
  }
  int integer() const {
    if (!value_->is_number_integer() || value_->get<double>() < 0 ||
        value_->get<double>() > std::numeric_limits<int>::max()) {
      refuse("expected a whole number from 0 to " + std::to_string(std::numeric_limits<int>::max()));
    }
    return value_->get<int>();
  }
  int positive_integer() const {
    if (integer() == 0) refuse("expected at least 1");
    return integer();
  }
  std::uint64_t unsigned_integer() const {
    if (!value_->is_number_unsigned()) refuse("expected a whole number that is not negative");
    return value_->get<std::uint64_t>();
  }
  std::optional<std::string> optional_text(const char* name) const {
    const auto member = find(name);
    return member ? std::optional(member->text()) : std::nullopt;
  }
  std::optional<int> optional_integer(const char* name) const {
    const auto member = find(name);
    return member ? std::optional(member->integer()) : std::nullopt;
  }

 private:
  std::string path_of(const char* name) const { return where_.empty() ? name : where_ + "." + name; }

  const std::filesystem::path* file_;
  std::string where_;
  const json* value_;
};

}  // namespace shakedown
