// A terminal that a program redraws in place and whose keys it reads.
#pragma once

#include <termios.h>

#include <optional>
#include <string>

namespace shakedown {

/// Takes the terminal of standard input and output during the lifetime of the object: shows the alternate screen
/// without a cursor, and keys arrive at once and unseen. Ctrl-Z is off, because a stopped program would leave the
/// terminal in this state.
class LiveScreen {
 public:
  LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;
  /// Restores the terminal.
  ~LiveScreen();

  /// Replaces what the terminal shows. Lines that do not fit are left out, and their number is shown.
  void draw(const std::string& text);

  /// Returns the descriptor at which keys arrive; -1 if standard input is not a terminal.
  int keys() const;
  /// Takes the keys that have been pressed, and returns true if q is one of them or the terminal is gone.
  bool is_ended();

 private:
  std::optional<termios> before_;  // nullopt if standard input is not a terminal
};

}  // namespace shakedown
