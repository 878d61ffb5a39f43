// File access: small files of /sys and /proc below a root folder, so that tests can simulate a machine; and safe
// writes.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace shakedown {

/// Unreadable input or wrong usage. The message is one line: the file (and line), what is wrong and how to fix it. Exit
/// code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file that cannot be written. Exit code 3 if a verdict is expected: the run says nothing about the machine.
struct CannotWrite : InputError {
  using InputError::InputError;
};

/// A file or folder that cannot be read now, although it may be valid. Causes: no descriptors or memory are left, or a
/// disk or server does not answer. Not an InputError. Exit code 3.
struct CannotRead : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws InputError if the path itself is wrong (missing, or access denied), else CannotRead. Both name the path and
/// the error.
[[noreturn]] void refuse_to_read(const std::filesystem::path&, std::error_code);

/// True if the path exists. Errors: std::filesystem::filesystem_error if the system cannot tell.
bool path_exists(const std::filesystem::path&);
/// True if the path exists; false if it does not or the system cannot tell.
bool is_visible(const std::filesystem::path&);

/// True if the path is a folder. Errors: as for refuse_to_read if the system cannot tell.
bool is_folder(const std::filesystem::path&);

/// Returns the message of an InputError or std::invalid_argument that `step` throws; empty if it throws neither.
template <class Step>
std::string input_error_of(const Step& step) {
  try {
    step();
    return "";
  } catch (const InputError& error) {
    return error.what();
  } catch (const std::invalid_argument& error) {  // arguments that contradict each other
    return error.what();
  }
}

/// Returns the first line without surrounding blanks; nullopt if the file cannot be read or the line is empty.
std::optional<std::string> line_of(const std::filesystem::path& file);

/// Returns the number at the beginning of the file; nullopt if there is none.
std::optional<double> number_of(const std::filesystem::path& file);

/// Returns all lines; nullopt if the file cannot be read.
std::optional<std::vector<std::string>> lines_of(const std::filesystem::path& file);

/// Returns the value of `name` in a file of "name : value" or "name=value" lines; nullopt if it is missing.
std::optional<std::string> field_of(const std::filesystem::path& file, std::string_view name, char separator = ':');

/// Returns the names in a folder, sorted ("eth2" before "eth10"); nullopt if the folder cannot be read.
std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder);

/// Returns the bytes of any file, such as one of /sys; nullopt if it cannot be opened.
std::optional<std::string> content_of(const std::filesystem::path& file);

/// Returns the bytes of a regular file. Errors: InputError for other kinds of files, since a pipe or device may never
/// end; CannotRead.
std::string read_file(const std::filesystem::path& file);

/// Returns the path of an installed file, such as "share/shakedown/thresholds", relative to the running program. bin/
/// and share/ are siblings in the build tree and in an installed copy. Resolves links if the file exists. Errors:
/// filesystem_error if the program has no readable link in /proc.
std::filesystem::path beside_program(const std::filesystem::path& name);

/// Replaces `file` atomically: writes `text` to a temporary file in the same folder and renames it. A reader sees the
/// old file or the new one, never a part. Errors: CannotWrite with the file name; the old file then remains.
void replace_file(const std::filesystem::path& file, std::string_view text);

}  // namespace shakedown
