// A strict YAML reader: every value is read by name and type, and unknown members are refused. yaml-cpp by itself
// accepts unknown keys, keeps the first of two equal keys, reads 010 as 8 and .nan as a number. Private to
// thresholds/*.cpp: it needs yaml-cpp.
#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"

namespace shakedown {

/// A node of the document with its place in the file.
class Yaml {
 public:
  Yaml(const std::filesystem::path& file, const YAML::Node& node, const YAML::Mark& mark)
      : file_(&file), node_(node), mark_(mark) {}

  /// Parses the only document of a file. Errors: InputError; also for anchors, aliases and a second document.
  static Yaml load(const std::filesystem::path& file);

  /// Throws InputError "file:line:column: what; what to do".
  [[noreturn]] void refuse(const std::string& what) const;
  /// Returns "file:line".
  std::string at() const;

  bool is_list() const { return node_.IsSequence(); }

  /// Returns the members of a map. Errors: not a map, a duplicate key, a key that is not in `known`.
  std::map<std::string, Yaml> members(const std::vector<std::string_view>& known) const;
  /// Returns the members of a map with any keys.
  std::map<std::string, Yaml> members() const;
  std::vector<Yaml> items() const;

  std::string text() const;  // not empty
  double number() const;     // finite
  int integer() const;
  bool boolean() const;
  /// Returns one of `choices`.
  std::string choice(const std::vector<std::string_view>& choices) const;
  /// Returns the value of an enum by its word.
  template <Named Enum>
  Enum value_of() const {
    constexpr auto all = words(Enum{});
    return *named<Enum>(choice({all.begin(), all.end()}));
  }

 private:
  std::string scalar(const char* expected) const;
  bool is_quoted() const { return node_.Tag() == "!"; }

  const std::filesystem::path* file_;
  YAML::Node node_;
  YAML::Mark mark_;
};

using Members = std::map<std::string, Yaml>;

/// Returns a member that must be there. `what`: the parent, as in "a rule". Errors: InputError.
const Yaml& required(const Members&, std::string_view name, const Yaml& parent, std::string_view what = "a row");

}  // namespace shakedown
