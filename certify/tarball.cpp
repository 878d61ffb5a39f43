#include "certify/tarball.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/shown_path.hpp"
#include "base/text.hpp"
#include "certify/secrets.hpp"

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
  constexpr std::size_t max_file_bytes = (std::size_t{1} << 33) - 1;  // of 11 octal digits
  if (size > max_file_bytes) throw InputError(name + ": has more than 8 GiB, which a tar cannot hold");
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
    throw InputError(folder.string() + ": no results in this folder; name the folder of a run with --results=DIR");
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

// Writes a file next to `out`, which is renamed to `out` when it is complete, and is removed otherwise.
Tarball::Tarball(const fs::path& out) : out_(out), temporary_(out.string() + "." + std::to_string(getpid()) + ".tmp") {
  std::error_code error;
  if (fs::exists(fs::symlink_status(out, error))) throw InputError(out.string() + ": exists; name another file");
  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file_ < 0) refuse();
}

Tarball::~Tarball() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void Tarball::add(const std::string& name, std::string_view text, std::time_t time) {
  write_all(header(name, text.size(), time));
  write_all(text);
  write_all(std::string((block - text.size() % block) % block, '\0'));
}

void Tarball::finish() {
  write_all(std::string(2 * block, '\0'));
  // Makes a link instead of a rename, because a link does not replace a file that was created in the meantime. On a
  // file system without links it renames.
  if (fsync(file_) != 0) refuse();
  if (link(temporary_.c_str(), out_.c_str()) == 0) return;
  if (errno == EEXIST || rename(temporary_.c_str(), out_.c_str()) != 0) refuse();
}

void Tarball::refuse() const {
  throw CannotWrite(out_.string() + ": cannot be written: " + std::generic_category().message(errno) +
                    "; choose a folder with space");
}

void Tarball::write_all(std::string_view text) {
  while (!text.empty()) {
    const auto written = write(file_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void each_file_without_secrets(const fs::path& folder,
                               const std::function<void(const std::string&, const std::string&, std::time_t)>& visit) {
  const auto root = fs::canonical(folder);
  for (const auto& file : files_of(root)) {
    const auto name = fs::relative(file, root).string();
    if (fs::path(name).filename() == "lock") continue;
    const bool is_json = file.extension() == ".json" || file.extension() == ".jsonl";
    const auto text = is_json ? json_without_secrets(text_of(file)) : without_secrets(text_of(file));
    std::error_code error;
    const auto written = fs::last_write_time(file, error);
    const auto age = error ? fs::file_time_type::duration() : fs::file_time_type::clock::now() - written;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
    visit(name, text, std::max<std::time_t>(std::time(nullptr) - seconds, 0));
  }
}

std::string line_of_sums(std::string_view text, const std::string& name) { return sha256(text) + "  " + name + "\n"; }

void write_tarball(const fs::path& folder, const fs::path& out) {
  const auto top = fs::canonical(folder).filename().string() + "/";
  Tarball tar(out);
  std::string sums;
  each_file_without_secrets(folder, [&](const std::string& name, const std::string& text, std::time_t time) {
    sums += line_of_sums(text, name);
    tar.add(top + name, text, time);
  });
  tar.add(top + "SHA256SUMS", sums, std::time(nullptr));
  tar.finish();
}

namespace {

/// Returns the text of a field of a header, which ends at the first zero byte.
std::string field_of_header(std::string_view header, std::size_t at, std::size_t size) {
  const auto field = header.substr(at, size);
  return std::string(field.substr(0, field.find('\0')));
}

/// Returns the size of a member. Errors: Refused if its header is damaged or does not describe a plain file.
std::size_t size_of_member(std::string_view header, const std::string& name) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < block; ++i) sum += i < 148 || i >= 156 ? static_cast<unsigned char>(header[i]) : ' ';
  const auto octal = [](const std::string& text) {
    std::size_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value, 8).ptr;
    return !text.empty() && (*end == '\0' || *end == ' ') ? std::optional(value) : std::nullopt;
  };
  if (octal(field_of_header(header, 148, 8)) != sum) {
    const bool is_name = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
    throw Refused(is_name ? name + ": the archive is damaged here" : "is not a tar archive, or is damaged");
  }
  if (header[156] != '0') throw Refused(name + ": is a link, a folder or a device; only plain files are accepted");
  const auto size = octal(field_of_header(header, 124, 12));
  if (!size) throw Refused(name + ": its size is not readable");
  return *size;
}

/// Removes the folder of the archive from a name. Errors: Refused for a name that leads out of that folder.
std::string name_below(const std::string& name, std::string& top) {
  const fs::path path(name);
  bool is_plain = path.is_relative() && path.has_filename() && name.find("//") == std::string::npos;
  for (const auto& part : path) is_plain = is_plain && part != ".." && part != ".";
  const auto slash = name.find('/');
  if (!is_plain || slash == std::string::npos) throw Refused(name + ": is not a file below the folder of the archive");
  if (top.empty()) top = name.substr(0, slash + 1);
  if (!name.starts_with(top)) throw Refused(name + ": is outside the folder " + top + " of the archive");
  return name.substr(slash + 1);
}

}  // namespace

std::vector<Member> members_of_tarball(std::string_view bytes) {
  std::vector<Member> members;
  std::set<std::string> names;
  std::string top;
  for (std::size_t at = 0; at + block <= bytes.size();) {
    const auto header = bytes.substr(at, block);
    at += block;
    if (header.find_first_not_of('\0') == std::string_view::npos) {
      if (bytes.substr(at) == std::string(block, '\0')) return members;
      throw Refused("there are " + std::to_string(bytes.size() - at) + " bytes after the end of the archive");
    }
    const auto prefix = field_of_header(header, 345, 155);
    const auto shown = one_line((prefix.empty() ? "" : prefix + "/") + field_of_header(header, 0, 100));
    const auto size = size_of_member(header, shown);
    auto name = name_below(shown, top);
    if (!names.insert(name).second) throw Refused(name + ": occurs twice in the archive");
    if (size > bytes.size() - at) {
      throw Refused(name + ": has " + std::to_string(size) + " bytes, but the archive ends earlier");
    }
    members.push_back({std::move(name), bytes.substr(at, size)});
    at += (size + block - 1) / block * block;
  }
  throw Refused("the archive is truncated: its end is missing");
}

}  // namespace shakedown
