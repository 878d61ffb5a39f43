// Replaces a file atomically: a program that reads it gets the complete old or the complete new text.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <thread>

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
  bool is_regular() const {
    struct stat facts {};
    return ::fstat(file_.get(), &facts) != 0 || S_ISREG(facts.st_mode);
  }
  void wait_when_writing() const { ::fcntl(file_.get(), F_SETFL, ::fcntl(file_.get(), F_GETFL) & ~O_NONBLOCK); }

 private:
  Descriptor file_;
};

// Writes to a device or pipe. Stops after 5 s if no program reads the pipe.
void write_special(const fs::path& file, std::string_view text) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (true) {
    const OpenFile out(file, O_WRONLY | O_NONBLOCK);
    if (out.ok()) {
      if (out.is_regular()) refuse(file, EACCES);  // another user has replaced the file in the meantime
      out.wait_when_writing();
      if (!out.write(text)) refuse(file, errno);
      return;
    }
    if (errno != ENXIO || std::chrono::steady_clock::now() >= deadline) refuse(file, errno);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

// Returns the path to which a link points; nullopt if `file` is not a link. Follows only links of this user or of root,
// because the owner of a folder can create links in it. The link is opened, so that the checked link is also the one
// that is read.
std::optional<fs::path> target_of(const fs::path& file) {
  const Descriptor link(::open(file.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (!link.is_open() || ::fstat(link.get(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return std::nullopt;
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0) refuse(file, EACCES);
  std::array<char, PATH_MAX> text{};
  const auto length = ::readlinkat(link.get(), "", text.data(), text.size());
  if (length < 0) refuse(file, errno);
  return shown(folder_of(file) / std::string(text.data(), static_cast<std::size_t>(length)));
}

// True for /dev/null, a pipe or a terminal. Output is written to such a path directly, because with root permissions a
// rename would replace the device by a file.
bool is_special(const fs::path& file) {
  std::error_code error;
  const auto status = fs::status(file, error);
  return !error && fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void replace(const fs::path& file, std::string_view text, int max_links) {
  std::error_code error;
  // The folder of a run contains only files of this program, so any other kind of file under this name is replaced.
  const bool in_held_folder = shown(file) != file;
  if (!in_held_folder) {
    const auto target = target_of(file);
    if (is_special(file)) return write_special(file, text);
    if (target && max_links == 0) refuse(file, ELOOP);
    // If the file is a link, replaces the file to which it points and keeps the link.
    if (target) return replace(*target, text, max_links - 1);
  }
  // Opens the folder, so that the writes go to it even if another user renames it in the meantime.
  const Descriptor folder(::open(folder_of(file).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) refuse(file, errno);
  const auto place = fs::path("/proc/self/fd") / std::to_string(folder.get()) / file.filename();
  if (fs::is_directory(place, error)) refuse(file, EISDIR);
  // The name is unpredictable and O_EXCL is set, so that no link that another user created is followed.
  std::random_device random;
  fs::path temporary = place;
  temporary += "." + std::to_string(random()) + std::to_string(random()) + ".tmp";
  int failure = 0;
  {
    const OpenFile out(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (!out.ok()) refuse(file, errno);
    if (!out.write(text) || !out.sync()) failure = errno;
  }
  if (failure == 0 && ::rename(temporary.c_str(), place.c_str()) != 0) failure = errno;
  if (failure != 0) {
    ::unlink(temporary.c_str());
    refuse(file, failure);
  }
}

}  // namespace

void replace_file(const fs::path& file, std::string_view text) {
  const TimedCall call("write", file);
  constexpr int max_links = 8;
  replace(file, text, max_links);
}

}  // namespace shakedown
