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

}  // namespace shakedown
