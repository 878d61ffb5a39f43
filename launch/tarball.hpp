// Writes one file for the repair desk: results, facts, logs and checksums of a run, without secrets.
#pragma once

#include <filesystem>

namespace shakedown {

/// Writes all regular files of the folder of a run or soak, and their SHA256SUMS, into a tar file (POSIX ustar). Does
/// not follow links. Errors: InputError if the folder has no results, if `out` exists, or if `out` cannot be written
/// completely; `out` is then unchanged.
void write_tarball(const std::filesystem::path& folder, const std::filesystem::path& out);

}  // namespace shakedown
