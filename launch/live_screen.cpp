#include "launch/live_screen.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/console.hpp"
#include "base/descriptor.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

// Sequences of xterm, which all terminals of this century have (XTerm Control Sequences).
constexpr std::string_view begin_screen = "\033[?1049h\033[?25l", end_screen = "\033[?25h\033[?1049l";
constexpr std::string_view top_left = "\033[H", clear_line_end = "\033[K", clear_below = "\033[J";

void put(std::string_view text) { static_cast<void>(write_all(STDOUT_FILENO, text)); }

}  // namespace

LiveScreen::LiveScreen() {
  termios now{};
  if (isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &now) == 0) {
    before_ = now;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    now.c_cc[VMIN] = 0;
    now.c_cc[VTIME] = 0;
    now.c_cc[VSUSP] = now.c_cc[VQUIT] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSANOW, &now);
  }
  put(begin_screen);
}

LiveScreen::~LiveScreen() {
  put(end_screen);
  if (before_) tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

void LiveScreen::draw(const std::string& text) {
  auto lines = split(text, '\n');
  const auto fit = std::max<std::size_t>(2, lines_of_screen(STDOUT_FILENO).value_or(24)) - 1;
  if (lines.size() > fit) {
    const auto left_out = lines.size() - fit + 1;
    lines.resize(fit - 1);
    lines.push_back(fmt::format("... and {}; --once prints all", plural(left_out, "line")));
  }
  // One write, so that the terminal never shows a part.
  std::string all(top_left);
  for (const auto& line : lines) all += line + std::string(clear_line_end) + "\r\n";
  put(all + std::string(clear_below));
}

int LiveScreen::keys() const { return before_ ? STDIN_FILENO : -1; }

bool LiveScreen::is_ended() {
  if (!before_) return false;
  pollfd keys{STDIN_FILENO, POLLIN, 0};
  while (poll(&keys, 1, 0) > 0) {
    std::array<char, 64> pressed{};
    const auto count = read(STDIN_FILENO, pressed.data(), pressed.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    if (std::string_view(pressed.data(), static_cast<std::size_t>(count)).find_first_of("qQ") != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace shakedown
