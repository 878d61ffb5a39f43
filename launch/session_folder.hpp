// Chooses the folder for session files of Open MPI. Open MPI's default, /tmp/ompi.HOST.UID, is predictable, so another
// user could create it before a run of root does.
#pragma once

#include <optional>

#include "base/temporary_folder.hpp"

namespace shakedown {

/// Sets a session folder that other users cannot write to, unless the user has set one. The folder is /run for root,
/// else XDG_RUNTIME_DIR if all hosts have that folder, else a new folder, which is removed at the end.
class SessionFolder {
 public:
  SessionFolder();
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

 private:
  std::optional<TemporaryFolder> own_;
};

/// Completes the environment for mpirun, and chooses its session folder. The environment may be empty, as in a health
/// check or a minimal container. mpirun (Open MPI 4.1) crashes with SIGSEGV if HOME is not set and this user has no
/// entry in /etc/passwd.
[[nodiscard]] SessionFolder provide_environment();

}  // namespace shakedown
