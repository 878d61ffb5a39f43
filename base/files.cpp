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

/// By length where only digits differ in number, else as usual.
bool comes_before(const std::string& a, const std::string& b) {
  const auto stem = [](const std::string& name) { return name.substr(0, name.find_last_not_of("0123456789") + 1); };
  return stem(a) == stem(b) && a.size() != b.size() ? a.size() < b.size() : a < b;
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
