#include "base/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace shakedown {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Returns the size of a terminal; zeros if the descriptor is not a terminal.
winsize size_of(int descriptor) {
  winsize size{};
  if (isatty(descriptor) == 0 || ioctl(descriptor, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

std::optional<std::size_t> known(unsigned short count) {
  return count > 0 ? std::optional<std::size_t>(count) : std::nullopt;
}

}  // namespace

bool is_screen(int descriptor) {
  return isatty(descriptor) != 0 && !variable("TERM").empty() && variable("TERM") != "dumb";
}

std::optional<std::size_t> columns_of(int descriptor) {
  if (const int columns = std::atoi(variable("COLUMNS").data()); columns > 0) return columns;
  return known(size_of(descriptor).ws_col);
}

std::optional<std::size_t> lines_of_screen(int descriptor) { return known(size_of(descriptor).ws_row); }

bool shows_color(int descriptor) {
  const auto forced = variable("CLICOLOR_FORCE");
  return variable("NO_COLOR").empty() && (is_screen(descriptor) || (!forced.empty() && forced != "0"));
}

}  // namespace shakedown
