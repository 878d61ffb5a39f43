// A folder that is kept open. A user who renames it, or replaces it with a link, cannot redirect writes to another
// folder.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/descriptor.hpp"

namespace shakedown {

class HeldFolder {
 public:
  /// Opens a folder. Follows links, because the user named the path. Errors: CannotWrite if it is not a folder or
  /// cannot be read.
  static HeldFolder open(const std::filesystem::path&);
  /// Opens the folder `name` in `parent`, and creates it if it is missing. Does not follow links. Errors: CannotWrite
  /// if another user owns it, or if all users can write to it.
  static HeldFolder create(const HeldFolder& parent, const std::filesystem::path& name);

  /// Returns /proc/self/fd/N (proc(5)). In this process and its forks, this path refers to the folder even after a
  /// rename.
  const std::filesystem::path& path() const { return path_; }
  /// Throws CannotWrite if this user is root and another user owns the folder, or if all users can write to it.
  void require_trust() const;

 private:
  explicit HeldFolder(Descriptor folder, std::filesystem::path name);

  Descriptor folder_;
  std::filesystem::path name_, path_;  // name_ is for messages, path_ is for system calls
};

/// A file of a run that is appended to, such as its log. Opening it fails if it is a link or has a second hard link,
/// because either could redirect the writes.
class RunFile {
 public:
  enum class Mode { append, replace };
  /// Opens the file. Errors: CannotWrite.
  RunFile(std::filesystem::path, Mode);
  /// Appends text. Errors: CannotWrite.
  void write(std::string_view text) const;
  /// Appends text, and returns when it is on the disk. Errors: CannotWrite.
  void write_durably(std::string_view text) const;
  /// Appends text that may be lost, such as a log line on a full disk. False if the write failed.
  bool try_write(std::string_view text) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace shakedown
