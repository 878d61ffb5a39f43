// Environment variables: their values, and the names of those that this project reads.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// Returns the value of an environment variable; nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

/// A variable that a program or a script of this project reads.
struct Variable {
  std::string_view name;                     // without "SHAKEDOWN_"
  enum { setting, internal } use = setting;  // internal: set by programs, scripts and tests; users need not know it
};

const std::vector<Variable>& known_variables();

/// Returns a warning for each variable SHAKEDOWN_* of this process that nothing reads, such as a mistyped one.
std::vector<std::string> warnings_of_unknown_variables();

}  // namespace shakedown
