// The progress display of an acceptance: for each family its progress, seconds, the figure closest to its limit, that
// limit, and its failures.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/event.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns a finding in one line: status, figure, limit and place.
std::string short_text(const Finding&);

/// True if the finding belongs to this family and fails it.
bool makes_fail(const Finding&, const std::string& family);

/// The state of all families. Pure: the caller passes the seconds since the start of the measurement.
class Progress {
 public:
  explicit Progress(const std::vector<std::string>& families);

  /// Processes an event of the ranks. Only plans and rows of known families have an effect.
  void heard(const Event&, double now);
  /// Records that a family has a result. The verdict is of this family alone.
  void arrived(const std::string& family, const Verdict&, double now);

  /// Returns a line per family and the total, at most `width` columns each, without a newline at the end.
  std::string text(double now, std::size_t width, bool color) const;
  /// Returns "[3/9] gemm: ok, 9 s; closest to its limit: ..." for the log of a finished family.
  std::string line_of(const std::string& family) const;

 private:
  struct Row {
    std::string family;
    std::optional<double> began, ended;
    std::optional<double> left;  // seconds, as planned by the ranks
    double left_at = 0;
    int done = 0, total = 0;
    std::string doing;    // key of the current row
    std::string nearest;  // margin to its limit
    std::vector<std::string> failing;
  };
  static std::optional<double> left(const Row&, double now);
  Row* row_of(std::string_view family);
  std::string what(const Row&, double now) const;
  std::size_t arrived_count() const;

  std::vector<Row> rows_;
  double last_ended_ = 0;
};

/// Shows the progress on standard error. On a terminal that supports it (not TERM=dumb) it redraws in place, in colour
/// unless NO_COLOR is set; elsewhere it prints a line for each finished family.
class Screen {
 public:
  explicit Screen(const std::vector<std::string>& families);
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  void heard(const Event&);
  void arrived(const std::string& family, const Verdict&);
  /// Draws the board if the last drawing is older than a quarter of a second.
  void tick();
  /// Removes the display before other output; the next tick draws it again.
  void clear();

  /// Reports once that the ranks send no events, with the reason if it is known.
  void warn_of_no_events(const std::string& why);

  bool in_place() const { return in_place_; }

 private:
  using Clock = std::chrono::steady_clock;
  double now() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  Progress progress_;
  bool in_place_, color_, misses_events_ = false;
  Clock::time_point began_ = Clock::now(), drawn_at_{};
  int drawn_lines_ = 0;
};

}  // namespace shakedown
