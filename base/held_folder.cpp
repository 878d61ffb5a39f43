#include "base/held_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/files.hpp"
#include "base/shown_path.hpp"
#include "base/timed_call.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw CannotWrite(shown(path).string() + ": " + why);
}

std::string error_text() { return "cannot be written: " + std::generic_category().message(errno); }

std::string belongs_to(uid_t user) {
  return "belongs to user " + std::to_string(user) +
         ", who can replace its files; name a folder of your own with --results=DIR";
}

}  // namespace

HeldFolder::HeldFolder(Descriptor folder, fs::path name)
    : folder_(std::move(folder)), name_(std::move(name)), path_("/proc/self/fd/" + std::to_string(folder_.get())) {}

HeldFolder HeldFolder::open(const fs::path& path) {
  const TimedCall call("open", path);
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) refuse(path, "cannot be opened: " + std::generic_category().message(errno));
  return HeldFolder(std::move(folder), path);
}

HeldFolder HeldFolder::create(const HeldFolder& parent, const fs::path& name) {
  const auto path = parent.name_ / name;
  const TimedCall call("create", path);
  constexpr mode_t not_for_others = 0755;
  if (mkdirat(parent.folder_.get(), name.c_str(), not_for_others) != 0 && errno != EEXIST) refuse(path, error_text());
  Descriptor folder(openat(parent.folder_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.is_open()) refuse(path, "is a link, or not a folder; remove it, or name another one with --results=DIR");
  HeldFolder held(std::move(folder), path);
  held.require_trust();
  struct stat facts {};
  if (fstat(held.folder_.get(), &facts) != 0) refuse(path, error_text());
  if (facts.st_uid != geteuid()) refuse(path, belongs_to(facts.st_uid));
  return held;
}

void HeldFolder::require_trust() const {
  struct stat facts {};
  if (fstat(folder_.get(), &facts) != 0) refuse(name_, error_text());
  if (geteuid() == 0 && facts.st_uid != 0) refuse(name_, belongs_to(facts.st_uid));
  if ((facts.st_mode & S_IWOTH) != 0) {
    refuse(name_, "can be written by all users; chmod o-w it, or name another folder with --results=DIR");
  }
}

RunFile::RunFile(fs::path path, Mode mode) : path_(std::move(path)) {
  const TimedCall call("open", path_);
  const int end = mode == Mode::append ? O_APPEND : 0;
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | end, 0644));
  if (!file_.is_open()) refuse(path_, error_text());
  struct stat facts {};
  const bool known = fstat(file_.get(), &facts) == 0;
  if (!known || !S_ISREG(facts.st_mode) || facts.st_nlink != 1) {
    refuse(path_,
           "has another name elsewhere (a hard link), or is no plain file; remove it, or name another folder with "
           "--results=DIR");
  }
  if (mode == Mode::replace && ftruncate(file_.get(), 0) != 0) refuse(path_, error_text());
}

void RunFile::write(std::string_view text) const {
  if (!try_write(text)) refuse(path_, error_text());
}

void RunFile::write_durably(std::string_view text) const {
  write(text);
  const TimedCall call("write", path_);
  if (fsync(file_.get()) != 0) refuse(path_, error_text());
}

bool RunFile::try_write(std::string_view text) const {
  const TimedCall call("write", path_);
  return write_all(file_.get(), text);
}

}  // namespace shakedown
