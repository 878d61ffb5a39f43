// What a run's lock says: who runs, and whether the run has come to its end.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shakedown {

struct Owner {
  int pid = 0;
  std::string started;  // of the process, in the kernel's ticks: tells it from a later one of the same number
  bool operator==(const Owner&) const = default;
};
Owner owner_of(int pid);
bool lives(const Owner&);

/// For people, but for "start" of the owner. Errors: CannotWrite.
void write_lock(const std::filesystem::path& lock, const Owner&);

/// Whether this file is one: others are called "lock" too.
bool is_run_lock(const std::filesystem::path&);

/// "process 7 on node1, since 2026-01-31T00:00:00Z"
std::string who(const std::filesystem::path& lock);

/// The process that it names; nothing: one of another host, which cannot be seen from here.
std::optional<Owner> owner_here(const std::filesystem::path& lock);

/// Why the run whose folder this is has no end: it lives, or broke off. Nothing for a folder of an ended run, or of
/// none, nor for what measures and its own steps, which judge before the end.
std::optional<std::string> unfinished(const std::filesystem::path& folder);

}  // namespace shakedown
