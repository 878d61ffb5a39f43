// A strict YAML reader. The reader reads every value by name and type, and rejects unknown members. yaml-cpp by itself
// accepts unknown keys, uses the first of two equal keys, reads 010 as 8 and .nan as a number. Only thresholds/*.cpp
// and the settings of a fine-tuning may use it, because it needs yaml-cpp.
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

/// A node of the document, with its place in the file.
class Yaml {
 public:
  Yaml(const std::filesystem::path& file, const YAML::Node& node, const YAML::Mark& mark)
      : file_(&file), node_(node), mark_(mark) {}

  /// Parses a file that has exactly one document. Errors: InputError, also for anchors, aliases and a second document.
  static Yaml load(const std::filesystem::path& file);

  /// Throws InputError "file:line:column: what is wrong; how to fix it".
  [[noreturn]] void refuse(const std::string& what) const;
  /// Returns "file:line".
  std::string at() const;

  bool is_list() const { return node_.IsSequence(); }

  /// Returns the members of a map. Errors: it is not a map, a key occurs twice, or a key is not in `known`.
  std::map<std::string, Yaml> members(const std::vector<std::string_view>& known) const;
  /// Returns the members of a map that can have any keys.
  std::map<std::string, Yaml> members() const;
  std::vector<Yaml> items() const;

  std::string text() const;  // returns a text that is not empty
  double number() const;     // returns a finite number
  int integer() const;
  bool boolean() const;
  /// Returns one of `choices`.
  std::string choice(const std::vector<std::string_view>& choices) const;
  /// Returns the enum value that this word stands for.
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
