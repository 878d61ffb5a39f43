// Access to files: small files of /sys and /proc below a root folder, so that tests can simulate a machine, and atomic
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

/// Thrown for unreadable input or wrong usage. The message is one line: the file (and line), what is wrong and how to
/// fix it. Exit code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown if a file cannot be written. The exit code is 3 if the user expects a verdict, because there is no result
/// about the machine.
struct CannotWrite : InputError {
  using InputError::InputError;
};

/// Thrown if a file or folder cannot be read now, although it may be valid: there are no descriptors or memory left, or
/// a disk or server does not answer. This exception is not an InputError. Exit code 3.
struct CannotRead : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws InputError if the path itself is wrong (missing, or access denied), else CannotRead. Messages of both
/// exceptions name the path and the error.
[[noreturn]] void refuse_to_read(const std::filesystem::path&, std::error_code);

/// True if the path exists. Errors: std::filesystem::filesystem_error if the system cannot answer.
bool path_exists(const std::filesystem::path&);
/// True if the path exists; false if it does not exist or the system cannot answer.
bool is_visible(const std::filesystem::path&);

/// True if the path is a folder. Errors: those of refuse_to_read if the system cannot answer.
bool is_folder(const std::filesystem::path&);

/// Runs `step`. If it throws an InputError or std::invalid_argument, returns the message, else an empty text.
template <class Step>
std::string input_error_of(const Step& step) {
  try {
    step();
    return "";
  } catch (const InputError& error) {
    return error.what();
  } catch (const std::invalid_argument& error) {  // thrown for arguments that contradict each other
    return error.what();
  }
}

/// Returns the first line without blanks at its ends; nullopt if the file cannot be read or the line is empty.
std::optional<std::string> line_of(const std::filesystem::path& file);

/// Returns the number at the beginning of the file; nullopt if the file does not begin with a number.
std::optional<double> number_of(const std::filesystem::path& file);

/// Returns all lines; nullopt if the file cannot be read.
std::optional<std::vector<std::string>> lines_of(const std::filesystem::path& file);

/// Returns the value of `name` from a file with lines "name : value" or "name=value"; nullopt if no line has this name.
std::optional<std::string> field_of(const std::filesystem::path& file, std::string_view name, char separator = ':');

/// Returns the names in a folder, sorted ("eth2" before "eth10"); nullopt if the folder cannot be read.
std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder);

/// Returns the bytes of any file, such as one of /sys; nullopt if it cannot be opened.
std::optional<std::string> content_of(const std::filesystem::path& file);

/// Returns the bytes of a regular file. Errors: InputError for other kinds of files, because a pipe or device may never
/// end; CannotRead.
std::string read_file(const std::filesystem::path& file);

/// Returns the path of an installed file, such as "share/shakedown/thresholds". bin/ with the running program and
/// share/ are in the same folder, both in the build tree and in an installed copy. Resolves links if the file exists.
/// Errors: filesystem_error if the program has no readable link in /proc.
std::filesystem::path beside_program(const std::filesystem::path& name);

/// Replaces `file` atomically: writes `text` to a temporary file in the same folder and renames it. A program that
/// reads `file` gets the complete old or the complete new text. Errors: CannotWrite with the file name; the file then
/// keeps its old content.
void replace_file(const std::filesystem::path& file, std::string_view text);

}  // namespace shakedown
