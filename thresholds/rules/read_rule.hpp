// Reads one rule of a profile. Private to thresholds/rules: it needs yaml-cpp.
#pragma once

#include <string_view>

#include "thresholds/rules/profile.hpp"
#include "thresholds/rules/strict_yaml.hpp"

namespace shakedown {

/// True for the first word of a key.
bool is_family(std::string_view word);

/// Reads a rule of this profile. Errors: InputError with file, line and column for a rule that can never fail or never
/// pass, or without a source.
Rule read_rule(const Yaml&, const Profile&);

}  // namespace shakedown
