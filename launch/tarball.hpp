// One file for the repair desk: results, facts, logs and checksums of a run, without secrets.
#pragma once

#include <filesystem>

namespace shakedown {

/// Writes all regular files of the folder of a run or soak, and their SHA256SUMS, into a tar (POSIX ustar). Does not
/// follow links. Errors: InputError for a folder without results, an existing `out`, and one that cannot be written
/// completely; `out` is then unchanged.
void write_tarball(const std::filesystem::path& folder, const std::filesystem::path& out);

}  // namespace shakedown
