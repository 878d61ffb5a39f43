#include "launch/tarball.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <system_error>
#include <vector>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/shown_path.hpp"
#include "launch/secrets.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t block = 512;

/// Returns the header of a file (POSIX.1-1988, ustar). The file has no owner and all users may read it.
std::string header(const std::string& name, std::size_t size, std::time_t time) {
  std::string text(block, '\0');
  const auto put = [&](std::size_t at, const std::string& value) { text.replace(at, value.size(), value); };
  const auto octal = [](std::uint64_t value, int digits) {
    std::array<char, 24> number{};
    std::snprintf(number.data(), number.size(), "%0*llo", digits, static_cast<unsigned long long>(value));
    return std::string(number.data());
  };
  constexpr std::size_t max_name_bytes = 100, max_folder_bytes = 155;
  const auto slash =
      name.size() <= max_name_bytes ? std::string::npos : name.find('/', name.size() - max_name_bytes - 1);
  if (name.size() > max_name_bytes && (slash == std::string::npos || slash > max_folder_bytes)) {
    throw InputError(name + ": its name is too long for a tar; give the run a shorter id");
  }
  if (slash != std::string::npos) put(345, name.substr(0, slash));
  put(0, slash == std::string::npos ? name : name.substr(slash + 1));
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(size, 11));
  put(136, octal(static_cast<std::uint64_t>(time), 11));
  put(148, "        ");  // the checksum is computed as if its own field had blanks
  put(156, "0");
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : text) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  return text;
}

/// A new file next to `out`, which is renamed to `out` when it is complete, and is removed otherwise.
class Tar {
 public:
  explicit Tar(const fs::path& out) : out_(out), temporary_(out.string() + "." + std::to_string(getpid()) + ".tmp") {
    std::error_code error;
    if (fs::exists(fs::symlink_status(out, error)))
      throw InputError(out.string() + ": exists; name another file");
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file_ < 0) refuse();
  }
  Tar(const Tar&) = delete;
  Tar& operator=(const Tar&) = delete;
  ~Tar() {
    if (file_ < 0) return;
    close(file_);
    unlink(temporary_.c_str());
  }

  void add(const std::string& name, const std::string& text, std::time_t time) {
    write_all(header(name, text.size(), time));
    write_all(text);
    write_all(std::string((block - text.size() % block) % block, '\0'));
  }

  void finish() {
    write_all(std::string(2 * block, '\0'));
    // Makes a link instead of a rename, because a link does not replace a file that was created in the meantime. On a
    // file system without links it renames.
    if (fsync(file_) != 0) refuse();
    if (link(temporary_.c_str(), out_.c_str()) == 0) return;
    if (errno == EEXIST || rename(temporary_.c_str(), out_.c_str()) != 0) refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw CannotWrite(out_.string() + ": cannot be written: " + std::generic_category().message(errno) +
                      "; choose a folder with space");
  }
  void write_all(std::string_view text) {
    while (!text.empty()) {
      const auto written = write(file_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse();
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  fs::path out_, temporary_;
  int file_ = -1;
};

std::vector<fs::path> files_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const auto type = at->symlink_status(error).type();
    if (error) break;
    if (type == fs::file_type::regular) files.push_back(at->path());
  }
  if (error) refuse_to_read(folder, error);
  std::sort(files.begin(), files.end());
  const auto is_result = [](const fs::path& file) {
    return file.extension() == ".json" || file.extension() == ".jsonl";
  };
  if (std::none_of(files.begin(), files.end(), is_result)) {
    throw InputError(folder.string() + ": no results in this folder; name that of a run with --results=DIR");
  }
  return files;
}

/// Returns the text of a file of this folder. Does not follow links, because the owner of the folder may have replaced
/// the file or a parent folder by a link after it was listed. Errors: InputError.
std::string text_of(const fs::path& file) {
  const Descriptor opened(open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!opened.is_open()) refuse_to_read(file, std::error_code(errno, std::generic_category()));
  const fs::path held = "/proc/self/fd/" + std::to_string(opened.get());
  if (shown(held) != file) throw InputError(file.string() + ": has changed while it was archived; repeat the command");
  return read_file(held);
}

}  // namespace

void write_tarball(const fs::path& folder, const fs::path& out) {
  const auto root = fs::canonical(folder);
  const auto files = files_of(root);
  const auto top = root.filename().string() + "/";
  Tar tar(out);
  std::string sums;
  for (const auto& file : files) {
    const auto name = fs::relative(file, root).string();
    if (fs::path(name).filename() == "lock") continue;
    const bool is_json = file.extension() == ".json" || file.extension() == ".jsonl";
    const auto text = is_json ? json_without_secrets(text_of(file)) : without_secrets(text_of(file));
    sums += sha256(text) + "  " + name + "\n";
    std::error_code error;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(file, error);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
    tar.add(top + name, text, std::time(nullptr) - seconds);
  }
  tar.add(top + "SHA256SUMS", sums, std::time(nullptr));
  tar.finish();
}

}  // namespace shakedown
