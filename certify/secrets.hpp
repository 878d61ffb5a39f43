// Masks secrets in text that leaves the site. Only parts that are known to be harmless stay; all others become ***.
#pragma once

#include <string>
#include <string_view>

namespace shakedown {

/// Returns the text of a log with secrets replaced by ***: values of variables with unknown names, all pieces except
/// words, numbers and names of machines, and the text after the name of a secret in the same or the next line.
std::string without_secrets(std::string_view log);

/// Returns JSON in which each string is masked as in without_secrets(). Keys are not changed.
std::string json_without_secrets(std::string_view json);

}  // namespace shakedown
