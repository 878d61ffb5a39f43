#include "base/files.hpp"

#include <algorithm>
#include <fstream>

#include "base/parse_number.hpp"
#include "base/shown_path.hpp"
#include "base/timed_call.hpp"

namespace shakedown {

namespace {

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

/// Compares names so that numbers in them are ordered by value: nvme2n1 is before nvme10n1.
bool comes_before(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto number = [&](const std::string& text, std::size_t& at) {
      const auto begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      const auto first = std::min(text.find_first_not_of('0', begin), at);
      return text.substr(first, at - first);
    };
    const auto one = number(a, i), other = number(b, j);
    if (one.size() != other.size()) return one.size() < other.size();
    if (one != other) return one < other;
  }
  const auto left = a.size() - i, right = b.size() - j;
  return left != right ? left < right : a < b;  // 007 and 7 have the same value, but are different names
}

}  // namespace

std::optional<std::string> line_of(const std::filesystem::path& file) {
  const TimedCall call("read", file);
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  line = trimmed(line);
  return line.empty() ? std::nullopt : std::optional(line);
}

std::optional<double> number_of(const std::filesystem::path& file) {
  const auto line = line_of(file);
  return line ? leading_number<double>(*line) : std::nullopt;
}

std::optional<std::vector<std::string>> lines_of(const std::filesystem::path& file) {
  const TimedCall call("read", file);
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::optional<std::string> field_of(const std::filesystem::path& file, std::string_view name, char separator) {
  const TimedCall call("read", file);
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto end = line.find(separator);
    if (end == std::string::npos || trimmed(line.substr(0, end)) != name) continue;
    const auto value = trimmed(line.substr(end + 1));
    return value.empty() ? std::nullopt : std::optional(value);
  }
  return std::nullopt;
}

std::optional<std::string> content_of(const std::filesystem::path& file) {
  const TimedCall call("read", file);
  std::ifstream in(file, std::ios::binary);
  return in ? std::optional(std::string(std::istreambuf_iterator<char>(in), {})) : std::nullopt;
}

std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder) {
  const TimedCall call("list", folder);
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end(), comes_before);
  return names;
}

void refuse_to_read(const std::filesystem::path& path, std::error_code error) {
  if (error == std::errc::no_such_file_or_directory) throw InputError(shown(path).string() + ": no such file");
  const auto text = shown(path).string() + ": cannot be read: " + error.message();
  using enum std::errc;
  for (const auto of_the_path : {permission_denied, operation_not_permitted, not_a_directory, is_a_directory,
                                 too_many_symbolic_link_levels, filename_too_long, invalid_argument}) {
    if (error == of_the_path) throw InputError(text);
  }
  throw CannotRead(text);
}

bool path_exists(const std::filesystem::path& path) {
  const TimedCall call("stat", path);
  return std::filesystem::exists(path);
}

bool is_visible(const std::filesystem::path& path) {
  const TimedCall call("stat", path);
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool is_folder(const std::filesystem::path& path) {
  const TimedCall call("stat", path);
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none) refuse_to_read(path, error);
  return std::filesystem::is_directory(status);
}

std::filesystem::path beside_program(const std::filesystem::path& name) {
  const TimedCall call("find the program's folder, for", name);
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  std::error_code error;
  const auto path = program.parent_path().parent_path() / name;
  const auto followed = std::filesystem::weakly_canonical(path, error);
  return error ? path : followed;
}

}  // namespace shakedown
