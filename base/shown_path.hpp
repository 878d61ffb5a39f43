// Paths for messages.
#pragma once

#include <filesystem>

namespace shakedown {

/// Returns the path to show to people. For a path inside a HeldFolder this is the current name of the folder; other
/// paths are unchanged.
std::filesystem::path shown(const std::filesystem::path&);

}  // namespace shakedown
