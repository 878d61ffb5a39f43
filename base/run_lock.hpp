// The lock file of a run: which process owns the run, and whether the run has ended.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shakedown {

struct Owner {
  int pid = 0;
  /// Start of the process in clock ticks; it distinguishes the process from a later one with the same PID.
  std::string started;
  bool operator==(const Owner&) const = default;
};
Owner owner_of(int pid);
bool lives(const Owner&);

/// Writes the lock file. The text of the lock file is for users; programs read only "start", which identifies the
/// owner. Errors: CannotWrite.
void write_lock(const std::filesystem::path& lock, const Owner&);

/// True if the file is the lock of a run. The name is not enough, because other files may be named "lock".
bool is_run_lock(const std::filesystem::path&);

/// Returns "process 7 on node1, since 2026-01-31T00:00:00Z".
std::string who(const std::filesystem::path& lock);

/// Returns the process that owns the lock; nullopt if it runs on another host, because it cannot be checked from here.
std::optional<Owner> owner_here(const std::filesystem::path& lock);

/// Returns why the run in this folder has not ended: it is still running, or it was aborted. nullopt if the run has
/// ended, or if the folder has no run. The result is also nullopt in processes of the run itself, because they judge it
/// before it ends.
std::optional<std::string> unfinished(const std::filesystem::path& folder);

}  // namespace shakedown
