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

}  // namespace

bool is_screen(int descriptor) {
  return isatty(descriptor) != 0 && !variable("TERM").empty() && variable("TERM") != "dumb";
}

std::optional<std::size_t> columns_of(int descriptor) {
  if (const int columns = std::atoi(variable("COLUMNS").data()); columns > 0) return columns;
  winsize size{};
  const bool known = isatty(descriptor) != 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::optional<std::size_t>(size.ws_col) : std::nullopt;
}

bool shows_color(int descriptor) {
  const auto forced = variable("CLICOLOR_FORCE");
  return variable("NO_COLOR").empty() && (is_screen(descriptor) || (!forced.empty() && forced != "0"));
}

}  // namespace shakedown
