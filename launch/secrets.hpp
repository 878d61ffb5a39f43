// Text that leaves the site: what is known to be harmless stays, all else becomes ***.
#pragma once

#include <string>
#include <string_view>

namespace shakedown {

/// Returns the text of a log with *** for values of unknown names, for all that is no word, number or name of a
/// machine, and for what follows the name of a secret, in this line or in the next.
std::string without_secrets(std::string_view log);

/// The same of JSON, string by string: it stays JSON, and keys stay.
std::string json_without_secrets(std::string_view json);

}  // namespace shakedown
