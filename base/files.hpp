// Files: the small ones of /sys and /proc, read below a root folder, so that tests can make up a machine; and what is
// written, safely.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace shakedown {

/// Unreadable input or wrong usage: one line that says which file (and line), what is wrong and what to do. Exit
/// code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file that cannot be written. Exit code 3 where somebody waits for a verdict: nothing is known of the machine.
struct CannotWrite : InputError {
  using InputError::InputError;
};

/// A file or folder that cannot be read now, though it may be in order: no descriptors or memory are left, or a disk or
/// server does not answer. No InputError. Exit code 3.
struct CannotRead : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Errors: InputError where the path itself is wrong (it is not there, or may not be read), else CannotRead; both name
/// the path and the error.
[[noreturn]] void refuse_to_read(const std::filesystem::path&, std::error_code);

/// Whether there is anything at this path. Errors: std::filesystem::filesystem_error where that cannot be told.
bool path_exists(const std::filesystem::path&);
/// The same; false where that cannot be told.
bool is_visible(const std::filesystem::path&);

/// Whether there is a folder at this path. Errors as of refuse_to_read where that cannot be told.
bool is_folder(const std::filesystem::path&);

/// The message of an InputError that the step throws, or of arguments that do not go together; or nothing.
template <class Step>
std::string input_error_of(const Step& step) {
  try {
    step();
    return "";
  } catch (const InputError& error) {
    return error.what();
  } catch (const std::invalid_argument& error) {  // what cannot be
    return error.what();
  }
}

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

/// The bytes of a regular file. Errors: InputError for anything else: a pipe or a device may never end; CannotRead.
std::string read_file(const std::filesystem::path& file);

/// Where a file of the installation is, seen from the program that runs: in the build tree as in an installed copy,
/// bin/ and share/ are neighbours. `name`: "share/shakedown/thresholds". Links are followed where it exists.
std::filesystem::path beside_program(const std::filesystem::path& name);

/// Writes `text` beside `file` under a temporary name and renames it, so that a reader sees the old file or the new
/// one, never a part. Errors: CannotWrite naming the file; the old file stays.
void replace_file(const std::filesystem::path& file, std::string_view text);

}  // namespace shakedown
