// Finds a profile by its name or path.
#pragma once

#include <filesystem>

namespace shakedown {

/// Returns the path of a profile, or of a folder of profiles. `named` is a path, or the name of a profile in `folder`.
/// Errors: InputError "--thresholds: ...".
std::filesystem::path profile_named(const std::filesystem::path& named, const std::filesystem::path& folder);

}  // namespace shakedown
