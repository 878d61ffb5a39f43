// The lock file of a run: which process owns the run, and whether the run has ended.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shakedown {

struct Owner {
  int pid = 0;
  std::string started;  // start of the process in clock ticks: distinguishes it from a later process with the same PID
  bool operator==(const Owner&) const = default;
};
Owner owner_of(int pid);
bool lives(const Owner&);

/// Writes the lock file. It is meant for people except for "start", which identifies the owner. Errors: CannotWrite.
void write_lock(const std::filesystem::path& lock, const Owner&);

/// True if the file is a lock of a run; other files may be named "lock" too.
bool is_run_lock(const std::filesystem::path&);

/// Returns "process 7 on node1, since 2026-01-31T00:00:00Z".
std::string who(const std::filesystem::path& lock);

/// Returns the process that owns the lock; nullopt if it runs on another host and cannot be checked from here.
std::optional<Owner> owner_here(const std::filesystem::path& lock);

/// Returns why the run in this folder has not ended: it is still running, or it was aborted. nullopt if the run has
/// ended, or if the folder has no run. Also nullopt for processes of the run itself, which judge it before its end.
std::optional<std::string> unfinished(const std::filesystem::path& folder);

}  // namespace shakedown
