// Decides how a file is replaced: the reader sees the old file or the new one, never a part.
// Tested by tests/results_test.cpp.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/files.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, int error) {
  throw InputError(file.string() + ": cannot be written: " + std::generic_category().message(error));
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool ok() const { return fd_ >= 0; }
  bool write(std::string_view text) const {
    while (!text.empty()) {
      const auto written = ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }
  bool sync() const { return ::fsync(fd_) == 0; }

 private:
  int fd_;
};

// /dev/null, a pipe or a terminal must be written to, not replaced by a file (root could).
bool is_special(const fs::path& file) {
  std::error_code error;
  const auto status = fs::status(file, error);
  return !error && fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

}  // namespace

void replace_file(const fs::path& file, std::string_view text) {
  std::error_code error;
  if (is_special(file)) {
    const Descriptor out(file, O_WRONLY);
    if (!out.ok() || !out.write(text)) refuse(file, errno);
    return;
  }
  if (fs::is_directory(file, error)) refuse(file, EISDIR);
  // A link keeps pointing where it does: what it points at is replaced.
  const fs::path target = fs::is_symlink(file, error) ? fs::weakly_canonical(file, error) : file;
  fs::path temporary = target;
  temporary += ".";
  temporary += std::to_string(::getpid());
  temporary += ".tmp";
  int failure = 0;
  {
    const Descriptor out(temporary, O_WRONLY | O_CREAT | O_TRUNC);
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
