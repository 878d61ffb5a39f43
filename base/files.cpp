#include "base/files.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace shakedown {

namespace {

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

/// Numbers by their value, all else as usual: nvme2n1 before nvme10n1.
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
  return left != right ? left < right : a < b;  // 07 and 7 differ still
}

}  // namespace

std::optional<std::string> line_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  line = trimmed(line);
  return line.empty() ? std::nullopt : std::optional(line);
}

std::optional<double> number_of(const std::filesystem::path& file) {
  const auto line = line_of(file);
  if (!line) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(line->data(), line->data() + line->size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<std::vector<std::string>> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::optional<std::string> field_of(const std::filesystem::path& file, std::string_view name, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto end = line.find(separator);
    if (end == std::string::npos || trimmed(line.substr(0, end)) != name) continue;
    const auto value = trimmed(line.substr(end + 1));
    return value.empty() ? std::nullopt : std::optional(value);
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end(), comes_before);
  return names;
}

std::string read_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) throw InputError(file.string() + ": no such file");
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(file.string() +
                     (std::filesystem::is_directory(status) ? ": is a folder" : ": is a pipe or a device") +
                     ", not a file");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) throw InputError(file.string() + ": cannot be read");
  std::string text;
  if (const auto size = std::filesystem::file_size(file, error); !error && size > 0) {
    text.resize(size);
    in.read(text.data(), static_cast<std::streamsize>(size));
    text.resize(static_cast<std::size_t>(in.gcount()));
  }
  // What another has written to it meanwhile, and files whose size nobody knows, as those of /proc.
  if (in) text.append(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) throw InputError(file.string() + ": cannot be read");
  return text;
}

std::filesystem::path beside_program(const std::filesystem::path& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return std::filesystem::weakly_canonical(program.parent_path().parent_path() / name, error);
}

}  // namespace shakedown
