#include "base/run_lock.hpp"

#include <unistd.h>

#include <cstdlib>

#include "base/files.hpp"
#include "base/held_folder.hpp"
#include "base/host_name.hpp"
#include "base/process.hpp"
#include "base/shown_path.hpp"
#include "base/timed_call.hpp"
#include "base/utc.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

}  // namespace

Owner owner_of(int pid) {
  const auto stat = stat_of(pid);
  return {pid, stat ? stat->started : ""};
}

bool lives(const Owner& owner) { return !owner.started.empty() && owner_of(owner.pid) == owner; }

void write_lock(const fs::path& lock, const Owner& owner) {
  RunFile(lock, RunFile::Mode::replace)
      .write("host: " + system_host_name() + "\nprocess: " + std::to_string(owner.pid) + "\nsince: " + utc_now() +
             "\nstart: " + owner.started + "\n");
}

bool is_run_lock(const fs::path& lock) { return field_of(lock, "host") && field_of(lock, "process"); }

std::string who(const fs::path& lock) {
  return "process " + field_of(lock, "process").value_or("?") + " on " + field_of(lock, "host").value_or("?") +
         ", since " + field_of(lock, "since").value_or("?");
}

std::optional<Owner> owner_here(const fs::path& lock) {
  if (field_of(lock, "host") != system_host_name()) return std::nullopt;
  return Owner{std::atoi(field_of(lock, "process").value_or("0").c_str()), field_of(lock, "start").value_or("")};
}

std::optional<std::string> unfinished(const fs::path& folder) {
  const TimedCall call("read", folder);
  const auto lock = folder / "lock";
  if (!fs::is_regular_file(lock)) return std::nullopt;
  if (const auto why = field_of(lock, "broke off"))
    return shown(folder).string() + " belongs to a run that was not completed: " + *why;
  if (path_exists(folder / "verdict.json") || field_of(lock, "ended")) return std::nullopt;
  // Before a run ends, its own process and child processes judge it, as under ctest. These processes may read the
  // folder.
  const auto owner = owner_here(lock);
  for (int process = getpid(); owner && process > 0;) {
    if (owner == owner_of(process)) return std::nullopt;
    const auto stat = stat_of(process);
    process = stat ? static_cast<int>(stat->parent) : 0;
  }
  return shown(folder).string() + " belongs to a run that is not complete: " + who(lock);
}

}  // namespace shakedown
