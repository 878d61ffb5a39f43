// Flags of programs. A table has one row for each flag, with name, value, verbs and help. Parsing and help texts use
// only these rows.
#pragma once

#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/files.hpp"
#include "base/names.hpp"

namespace shakedown {

struct Flag {
  std::string name;  // "--tier"
  /// The form of the value as in the help: "=quick|full", "[=yes|no]" if it is optional; empty: the flag has no value.
  std::string value = "";
  /// Verbs and programs that take the flag, with blanks between them; "bench" means every bench_FAMILY.
  std::string takers = "";
  std::string help = "";  // help text of one line
  /// Returns what is wrong with a value; empty if the value is valid.
  std::string (*fault)(const Flag&, const std::string& value) = nullptr;

  bool is_taken_by(const std::string& taker) const;
};

/// A row without takers is the title of the rows after it.
using FlagTable = std::vector<Flag>;

/// Returns the flags of all programs, except flags of output files, which report/outputs.cpp lists.
const FlagTable& flag_table();

/// Splits a text at commas.
std::vector<std::string> words_of_list(const std::string& text);

/// The flags of a command line, with their values.
class GivenFlags {
 public:
  explicit GivenFlags(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  bool has(const std::string& name) const { return values_.contains(name); }
  const std::map<std::string, std::string>& all() const { return values_; }

  /// Sets `target` to the value of a flag if the flag was given. Calls can be chained: given("--tier", tier)("--keep",
  /// keep). parse_flags has already checked the form of the value.
  template <class T>
  const GivenFlags& operator()(const std::string& name, T& target) const {
    if (const auto found = values_.find(name); found != values_.end()) read(found->second, target);
    return *this;
  }

 private:
  /// A flag without a value, or a word for true or false as Google Benchmark reads it.
  static void read(const std::string& text, bool& value);
  static void read(const std::string& text, std::string& value) { value = text; }
  static void read(const std::string& text, std::filesystem::path& value) { value = text; }
  template <class T>
  static void read(const std::string& text, std::optional<T>& value) {
    read(text, value.emplace());
  }
  template <class T>
  static void read(const std::string& text, std::vector<T>& values) {
    values.clear();
    if (text.empty()) return;
    for (const auto& word : words_of_list(text)) read(word, values.emplace_back());
  }
  template <Named T>
  static void read(const std::string& text, T& value) {
    if (const auto known = named<T>(text)) value = *known;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  static void read(const std::string& text, T& value) {
    std::from_chars(text.data(), text.data() + text.size(), value);
  }

  std::map<std::string, std::string> values_;
};

/// Returns the words in their canonical form: "--flag value" as "--flag=value", -h as --help and -V as --version.
std::vector<std::string> with_equals(const FlagTable&, const std::string& taker, const std::vector<std::string>& words);

/// Parses the words of `taker`: a verb ("baseline_create") or a program ("bench_gemm"). Errors: InputError for a flag
/// that is unknown, belongs to another verb or is given twice, and for a value that its row does not allow.
GivenFlags parse_flags(const FlagTable&, const std::string& taker, const std::vector<std::string>& words);

/// Returns the help of the flags of `taker`, by group, with one line for each flag.
std::string flags_help(const FlagTable&, const std::string& taker);

/// Returns the row of a flag, preferably one that `taker` takes; nullptr if the name is unknown.
const Flag* find_flag(const FlagTable&, const std::string& name, const std::string& taker);

}  // namespace shakedown
