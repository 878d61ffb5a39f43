// Removes secrets from text that leaves the site: only known harmless parts stay, others become ***.
#pragma once

#include <string>
#include <string_view>

namespace shakedown {

/// Returns the text of a log with *** for values of unknown names, for anything other than words, numbers and machine
/// names, and for the text after the name of a secret in this line or the next.
std::string without_secrets(std::string_view log);

/// Returns JSON with each string treated like that. Keys stay.
std::string json_without_secrets(std::string_view json);

}  // namespace shakedown
