// Temporary folders of measurements, and their removal after the death of the process that created them.
#pragma once

#include <filesystem>
#include <string_view>

namespace shakedown {

/// Removes OwnFolders of this kind left on this host by this user's processes that are no longer alive.
void remove_left_behind(const std::filesystem::path& parent, std::string_view kind);

/// Removes an OwnFolder that only contains its lock.
void remove_if_done(const std::filesystem::path& folder);

/// A temporary folder of this process inside another folder; removed on destruction. Also removes the folders of this
/// kind that belong to this user's dead processes on this host. A lock file inside a folder shows if its process is
/// alive.
class OwnFolder {
 public:
  /// If the folder cannot be created, path() names a folder that does not exist.
  OwnFolder(const std::filesystem::path& parent, std::string_view kind);
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace shakedown
