// Decides how a file is replaced: the reader sees the old file or the new one, never a part.
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

/// A file that is open for writing.
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

// A pipe that nobody reads does not hold this program up for ever.
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

// As the kernel does with fs.protected_symlinks: in a folder where all may write, such as /tmp, a link counts only if
// this user or the owner of the folder made it.
bool is_trusted(const fs::path& link) {
  struct stat of_link {};
  struct stat of_folder {};
  const auto folder = link.has_parent_path() ? link.parent_path() : fs::path(".");
  if (::lstat(link.c_str(), &of_link) != 0 || ::stat(folder.c_str(), &of_folder) != 0) return false;
  const bool for_all = (of_folder.st_mode & S_IWOTH) != 0;
  return !for_all || of_link.st_uid == ::geteuid() || of_link.st_uid == of_folder.st_uid;
}

// /dev/null, a pipe or a terminal must be written to, not replaced by a file (root could).
bool is_special(const fs::path& file) {
  std::error_code error;
  const auto status = fs::status(file, error);
  return !error && fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

}  // namespace

void replace_file(const fs::path& file, std::string_view text) {
  const TimedCall call("write", file);
  std::error_code error;
  // In a run's folder nothing but our files has a place: what somebody puts there is replaced.
  const bool held = shown(file) != file;
  const bool link = !held && fs::is_symlink(file, error);
  if (link && !is_trusted(file)) refuse(file, EACCES);
  if (!held && is_special(file)) return write_special(file, text);
  if (fs::is_directory(file, error)) refuse(file, EISDIR);
  // A link keeps pointing where it does: what it points at is replaced.
  const fs::path target = link ? fs::weakly_canonical(file, error) : file;
  // A name that nobody can know before, and a file that was not there: no link of somebody else is followed.
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
