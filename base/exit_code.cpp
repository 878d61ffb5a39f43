// Maps a failure to the exit code of the program.
#include "base/exit_code.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/descriptor.hpp"
#include "base/files.hpp"

namespace shakedown {
namespace {

/// Ends the process without allocating memory. Does not flush stdio, whose buffers may contain a part of a line.
[[noreturn]] void end_incomplete() {
  write_all(
      STDERR_FILENO,
      "shakedown: out of memory, or an internal error: the machine was not judged; free memory and try again\n");
  std::_Exit(exit_incomplete);
}

[[noreturn]] void end_incomplete_with_verdict() {
  write_all(STDOUT_FILENO, "VERDICT: INCOMPLETE 0/0 (profile none, 0 ranks)\n");
  end_incomplete();
}

std::string text_of(const std::filesystem::filesystem_error& error) {
  if (error.path1().empty()) return error.what();
  const auto other = error.path2().empty() ? "" : " and " + error.path2().string();
  return error.path1().string() + other + ": " + error.code().message();
}

}  // namespace

Failure failure_of(const std::exception& error) {
  if (dynamic_cast<const CannotWrite*>(&error) != nullptr) return {exit_incomplete, error.what()};
  if (dynamic_cast<const InputError*>(&error) != nullptr) return {exit_usage, error.what()};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {exit_incomplete, "out of memory; free some, or raise the limit (ulimit -v)"};
  }
  if (const auto* on_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return {exit_incomplete, text_of(*on_file)};
  }
  return {exit_incomplete, error.what()};
}

void end_incomplete_on_terminate(bool with_verdict) {
  std::set_terminate(with_verdict ? end_incomplete_with_verdict : end_incomplete);
}

}  // namespace shakedown
