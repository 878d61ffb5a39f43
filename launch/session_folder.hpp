// The folder for session files of Open MPI. Its default, /tmp/ompi.HOST.UID, is predictable, so another user could
// create it before root's run.
#pragma once

#include <filesystem>
#include <optional>

namespace shakedown {

/// Sets a session folder that other users cannot write, unless the user has set one: /run for root, XDG_RUNTIME_DIR if
/// all hosts have it, else a new folder, which is removed at the end.
class SessionFolder {
 public:
  SessionFolder();
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;
  ~SessionFolder();

 private:
  std::optional<std::filesystem::path> own_;
};

}  // namespace shakedown
