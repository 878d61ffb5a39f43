// Where Open MPI keeps the files of a launch. Its own choice, /tmp/ompi.HOST.UID, is a name that every user knows, and
// can take before a run of root.
#pragma once

#include <filesystem>
#include <optional>

namespace shakedown {

/// Tells the launchers that this process starts to use a folder that other users cannot write, unless the user has
/// named one: /run for root, XDG_RUNTIME_DIR, which hosts have alike, else a new one, which is removed in the end.
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
