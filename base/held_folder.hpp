// A folder that is held open, so that somebody who renames it, or puts a link in its place, turns no write elsewhere.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/descriptor.hpp"

namespace shakedown {

class HeldFolder {
 public:
  /// Follows links: the user named it. Errors: CannotWrite if it is no folder, or cannot be read.
  static HeldFolder open(const std::filesystem::path&);
  /// A folder of this user in `parent`, made if it is not there. Follows no link. Errors: CannotWrite if somebody else
  /// owns it, or all users may write to it.
  static HeldFolder create(const HeldFolder& parent, const std::filesystem::path& name);

  /// Leads to the folder in this process and its forks, whatever becomes of its name: /proc/self/fd/N (proc(5)).
  const std::filesystem::path& path() const { return path_; }
  /// Errors: CannotWrite if another user, root aside, owns it and this one is root, or if all users may write to it.
  void require_trust() const;

 private:
  explicit HeldFolder(Descriptor folder, std::filesystem::path name);

  Descriptor folder_;
  std::filesystem::path name_, path_;  // for people; for calls
};

/// A file of a run that grows, such as its log. No link is followed to it, and it has no second name elsewhere.
class RunFile {
 public:
  enum class Mode { append, replace };
  /// Errors: CannotWrite.
  RunFile(std::filesystem::path, Mode);
  /// Errors: CannotWrite.
  void write(std::string_view text) const;
  /// The same for what may be lost, as a line of the log on a full disk; false if it is.
  bool try_write(std::string_view text) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace shakedown
