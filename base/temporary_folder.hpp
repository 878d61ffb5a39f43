#pragma once

#include <filesystem>

namespace shakedown {

/// A new folder for files of this process, which its destructor removes.
class TemporaryFolder {
 public:
  /// Errors: CannotWrite.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace shakedown
