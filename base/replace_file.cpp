// Replaces a file atomically: a reader sees the old file or the new one, never a part.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <system_error>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/shown_path.hpp"
#include "base/timed_call.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, int error) {
  throw CannotWrite(shown(file).string() + ": cannot be written: " + std::generic_category().message(error));
}

/// A file opened for writing.
class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags) : file_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  bool ok() const { return file_.is_open(); }
  bool write(std::string_view text) const { return write_all(file_.get(), text); }
  bool sync() const { return ::fsync(file_.get()) == 0; }
  void wait_when_writing() const { ::fcntl(file_.get(), F_SETFL, ::fcntl(file_.get(), F_GETFL) & ~O_NONBLOCK); }

 private:
  Descriptor file_;
};

// Writes to a device or pipe. Gives up after 5 s if a pipe has no reader.
void write_special(const fs::path& file, std::string_view text) {
  constexpr int tries = 50;
  for (int i = 0; i < tries; ++i) {
    const OpenFile out(file, O_WRONLY | O_NONBLOCK);
    if (out.ok()) {
      out.wait_when_writing();
      if (!out.write(text)) refuse(file, errno);
      return;
    }
    if (errno != ENXIO) refuse(file, errno);
    ::usleep(100'000);
  }
  refuse(file, ENXIO);
}

// Applies the rule of fs.protected_symlinks to folders that all users can write to, such as /tmp. There a link is
// trusted only if it belongs to this user or to the owner of the folder.
bool is_trusted(const fs::path& link) {
  struct stat of_link {};
  struct stat of_folder {};
  const auto folder = link.has_parent_path() ? link.parent_path() : fs::path(".");
  if (::lstat(link.c_str(), &of_link) != 0 || ::stat(folder.c_str(), &of_folder) != 0) return false;
  const bool for_all = (of_folder.st_mode & S_IWOTH) != 0;
  return !for_all || of_link.st_uid == ::geteuid() || of_link.st_uid == of_folder.st_uid;
}

// True for /dev/null, a pipe or a terminal, which must be written to. With root permissions a rename would replace it
// by a file.
bool is_special(const fs::path& file) {
  std::error_code error;
  const auto status = fs::status(file, error);
  return !error && fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

}  // namespace

void replace_file(const fs::path& file, std::string_view text) {
  const TimedCall call("write", file);
  std::error_code error;
  // The folder of a run contains only files of this program. Anything else under that name is replaced.
  const bool held = shown(file) != file;
  const bool link = !held && fs::is_symlink(file, error);
  if (link && !is_trusted(file)) refuse(file, EACCES);
  if (!held && is_special(file)) return write_special(file, text);
  if (fs::is_directory(file, error)) refuse(file, EISDIR);
  // A link is kept: the file that it points to is replaced.
  const fs::path target = link ? fs::weakly_canonical(file, error) : file;
  // An unpredictable name and O_EXCL, so that no link created by another user is followed.
  std::random_device random;
  fs::path temporary = target;
  temporary += "." + std::to_string(random()) + std::to_string(random()) + ".tmp";
  int failure = 0;
  {
    const OpenFile out(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (!out.ok()) refuse(file, errno);
    if (!out.write(text) || !out.sync()) failure = errno;
  }
  if (failure == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) failure = errno;
  if (failure != 0) {
    ::unlink(temporary.c_str());
    refuse(file, failure);
  }
}

}  // namespace shakedown
