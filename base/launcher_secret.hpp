// The secret with which the ranks of a job authenticate each other, if the user gives one.
#pragma once

#include <optional>
#include <string>

#include "base/environment.hpp"

namespace shakedown {

/// Returns the secret that the launcher gave to all ranks: SHAKEDOWN_SECRET, or the content of the file that
/// SHAKEDOWN_SECRET_FILE names. nullopt if neither is set. Errors: InputError for a secret of less than 16 characters,
/// and for a file that other users can read or that this user does not own.
std::optional<std::string> launcher_secret(const Environment&);

}  // namespace shakedown
