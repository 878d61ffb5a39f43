// A folder that is kept open, so that renaming it or replacing it with a link cannot redirect writes.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/descriptor.hpp"

namespace shakedown {

class HeldFolder {
 public:
  /// Opens a folder and follows links, because the user named the path. Errors: CannotWrite if it is not a folder or
  /// cannot be read.
  static HeldFolder open(const std::filesystem::path&);
  /// Opens a folder of this user in `parent`, and creates it if it is missing. Does not follow links. Errors:
  /// CannotWrite if another user owns it, or if all users can write to it.
  static HeldFolder create(const HeldFolder& parent, const std::filesystem::path& name);

  /// Returns /proc/self/fd/N (proc(5)), which refers to the folder in this process and its forks even after a rename.
  const std::filesystem::path& path() const { return path_; }
  /// Errors: CannotWrite if this user is root and another user owns the folder, or if all users can write to it.
  void require_trust() const;

 private:
  explicit HeldFolder(Descriptor folder, std::filesystem::path name);

  Descriptor folder_;
  std::filesystem::path name_, path_;  // name_ for messages, path_ for system calls
};

/// A file of a run that grows, such as its log. It is not opened through a link, and must not have a second hard link.
class RunFile {
 public:
  enum class Mode { append, replace };
  /// Errors: CannotWrite.
  RunFile(std::filesystem::path, Mode);
  /// Errors: CannotWrite.
  void write(std::string_view text) const;
  /// Writes text, and returns when it is on the disk. Errors: CannotWrite.
  void write_durably(std::string_view text) const;
  /// Writes text that may be lost, such as a log line on a full disk. False if the write failed.
  bool try_write(std::string_view text) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace shakedown
