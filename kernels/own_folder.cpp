#include "kernels/own_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "base/files.hpp"

namespace shakedown {

namespace {

namespace fs = std::filesystem;

/// The owner of an OwnFolder holds a lock on this file.
constexpr auto lock_name = "lock";

/// Returns "shakedown-checkpoint-node7-" for the kind "checkpoint". The host name is included because a process cannot
/// check if a process of another host is alive.
std::string own_folders(std::string_view kind) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("shakedown-{}-{}-", kind, host.data());
}
constexpr std::size_t id_digits = 16;

/// Returns the descriptor of the locked file if this process got the lock of an own folder; else -1.
int lock_of(const fs::path& folder, int flags = 0) {
  const int fd = ::open((folder / lock_name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

void remove_left_behind(const fs::path& parent, std::string_view kind) {
  const auto prefix = own_folders(kind);
  for (const auto& name : names_in(parent).value_or(std::vector<std::string>())) {
    if (!name.starts_with(prefix) || name.size() != prefix.size() + id_digits) continue;
    struct stat folder {};
    if (::lstat((parent / name).c_str(), &folder) != 0 || folder.st_uid != ::geteuid()) continue;
    const int lock = lock_of(parent / name);
    if (lock < 0) continue;
    std::error_code error;
    fs::remove_all(parent / name, error);
    ::close(lock);
  }
}

void remove_if_done(const fs::path& folder) {
  std::error_code error;
  if (names_in(folder) == std::vector<std::string>{lock_name}) fs::remove_all(folder, error);
}

OwnFolder::OwnFolder(const fs::path& parent, std::string_view kind) {
  std::error_code error;
  const auto absolute = fs::absolute(parent, error);
  remove_left_behind(absolute, kind);
  std::random_device random;
  path_ = absolute / fmt::format("{}{:08x}{:08x}", own_folders(kind), random(), random());
  // The folder gets its name only after it is locked, so that no other process considers it abandoned.
  const auto unnamed = absolute / ("." + path_.filename().string());
  fs::create_directory(unnamed, error);
  lock_ = lock_of(unnamed, O_CREAT);
  fs::rename(unnamed, path_, error);
}

OwnFolder::~OwnFolder() {
  // If other ranks' files remain, the lock file also remains, because without it no process recognizes the folder as
  // ours.
  remove_if_done(path_);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace shakedown
