// Paths for messages.
#pragma once

#include <filesystem>

namespace shakedown {

/// Returns the path as messages show it. A path inside a HeldFolder is shown with the current name of the folder; other
/// paths are unchanged.
std::filesystem::path shown(const std::filesystem::path&);

}  // namespace shakedown
