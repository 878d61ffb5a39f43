// The path of a file as people know it.
#pragma once

#include <filesystem>

namespace shakedown {

/// The path that people know: of one below a HeldFolder, its present name; of others the same.
std::filesystem::path shown(const std::filesystem::path&);

}  // namespace shakedown
