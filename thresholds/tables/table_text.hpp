// Functions that all generators of tables use.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "base/files.hpp"
#include "thresholds/rules/strict_yaml.hpp"

namespace shakedown {

/// Returns the text as a C++ literal.
inline std::string quoted(const Yaml& yaml) {
  const std::string text = yaml.text();
  if (text.find_first_of("\"\\\n") != std::string::npos)
    yaml.refuse("contains a quote, a backslash or a newline; write it without them");
  return '"' + text + '"';
}

/// Returns a word of lower-case letters, digits and '_'.
inline std::string identifier(const Yaml& yaml) {
  const std::string word = yaml.text();
  if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos) {
    yaml.refuse("not a name of lower-case letters, digits and _; correct it");
  }
  return word;
}

/// Runs a generator: PROGRAM TABLE.yaml TABLE.hpp. Returns the exit code, which is 2 if the input is rejected.
inline int generate(int argc, char** argv, const std::function<std::string(const Yaml&)>& table_of) {
  if (argc != 3) {
    std::fprintf(stderr, "%s TABLE.yaml TABLE.hpp\n", argc > 0 ? argv[0] : "generate");
    return 2;
  }
  try {
    const std::string table = table_of(Yaml::load(argv[1]));
    return (std::ofstream(argv[2]) << table).flush() ? 0 : 3;
  } catch (const InputError& refusal) {
    std::fprintf(stderr, "%s\n", refusal.what());
    return 2;
  }
}

}  // namespace shakedown
