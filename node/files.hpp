// The small text files of /sys and /proc. All facts are read below a root folder, so that tests can make up a machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// First line, without blanks around it; nothing if the file cannot be read or is empty.
std::optional<std::string> line_of(const std::filesystem::path& file);

/// The number that the file begins with; nothing if there is none.
std::optional<double> number_of(const std::filesystem::path& file);

/// All lines; nothing if the file cannot be read.
std::optional<std::vector<std::string>> lines_of(const std::filesystem::path& file);

/// The value behind `name` in a file of "name : value" or "name=value" lines; nothing if it is not there.
std::optional<std::string> field_of(const std::filesystem::path& file, std::string_view name, char separator = ':');

/// Names in a folder, sorted ("eth2" before "eth10"); nothing if the folder cannot be read.
std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder);

/// "a, b, c".
std::string joined(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace shakedown
