// One file for the repair desk: results, facts, logs and hashes of a run, and no secrets.
#pragma once

#include <filesystem>

namespace shakedown {

/// Writes all regular files of a run's folder, or of a soak's, and SHA256SUMS of them, into a tar (POSIX ustar).
/// Links are not followed. Errors: InputError in one line, and `out` is as it was, for a folder without results, a file
/// that is there already, and one that cannot be written whole.
void write_tarball(const std::filesystem::path& folder, const std::filesystem::path& out);

}  // namespace shakedown
