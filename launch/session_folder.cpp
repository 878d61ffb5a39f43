#include "launch/session_folder.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/files.hpp"
#include "base/timed_call.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

/// The variables that set this folder in Open MPI 4, and in Open MPI 5 with its launcher PRRTE.
constexpr const char* variables[] = {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"};

/// True if this user owns the folder and no other user may write to it.
bool is_private(const fs::path& folder) {
  struct stat facts {};
  return ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
         (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0 && access(folder.c_str(), W_OK) == 0;
}

fs::path usual_folder() {
  if (geteuid() == 0) return "/run";
  const char* const of_session = std::getenv("XDG_RUNTIME_DIR");
  return of_session == nullptr ? "" : of_session;
}

}  // namespace

SessionFolder::SessionFolder() {
  const TimedCall call("find", "a folder for the launcher's session");
  fs::path folder = usual_folder();
  if (!is_private(folder)) {
    try {
      own_.emplace();
    } catch (const CannotWrite&) {
      return;  // the launcher reports the error
    }
    folder = own_->path();
  }
  for (const char* const variable : variables) setenv(variable, folder.c_str(), 0);
}

SessionFolder provide_environment() {
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 0);
  const TimedCall call(CallKind::name_service, "getpwuid, the entry of this user");
  const auto* const user = std::getenv("HOME") == nullptr ? getpwuid(geteuid()) : nullptr;
  setenv("HOME", user != nullptr ? user->pw_dir : "/", 0);
  return {};
}

}  // namespace shakedown
