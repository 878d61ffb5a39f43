// Tar files (POSIX ustar) of runs: the one for the repair desk, with results, facts, logs and checksums without
// secrets, and the strict reader of certificates.
#pragma once

#include <ctime>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// A new tar file, which appears when it is complete. Errors: InputError if the file exists; CannotWrite if it cannot
/// be written completely. The folder is then unchanged.
class Tarball {
 public:
  explicit Tarball(const std::filesystem::path& out);
  Tarball(const Tarball&) = delete;
  Tarball& operator=(const Tarball&) = delete;
  ~Tarball();

  void add(const std::string& name, std::string_view text, std::time_t time);
  void finish();

 private:
  [[noreturn]] void refuse() const;
  void write_all(std::string_view text);

  std::filesystem::path out_, temporary_;
  int file_ = -1;
};

/// Calls `visit` for each regular file of the folder of a run or soak, except its lock, with the name relative to the
/// folder, the text without secrets, and the time of the last change. Does not follow links. Errors: InputError if the
/// folder has no results.
void each_file_without_secrets(const std::filesystem::path& folder,
                               const std::function<void(const std::string&, const std::string&, std::time_t)>& visit);

/// Writes these files and their SHA256SUMS into a tar file. Errors: those of Tarball and each_file_without_secrets.
void write_tarball(const std::filesystem::path& folder, const std::filesystem::path& out);

/// Returns the line of a file in SHA256SUMS, as sha256sum prints it.
std::string line_of_sums(std::string_view text, const std::string& name);

/// Thrown if an archive is not what it must be. The message is one line that names the file inside the archive.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file in an archive. The text is a part of the bytes of the archive.
struct Member {
  std::string name;  // relative to the only folder of the archive
  std::string_view text;
};

/// Returns the files in the bytes of an archive that Tarball wrote. Errors: Refused for anything that is not a plain
/// file with a relative name below one folder, for a name that occurs twice, and for an archive without its end.
std::vector<Member> members_of_tarball(std::string_view bytes);

}  // namespace shakedown
