// The progress display of an acceptance. For each family, it shows the progress, the seconds, the figure closest to its
// limit with that limit, and the failures.
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

/// True if the finding belongs to this family and makes it fail.
bool makes_fail(const Finding&, const std::string& family);

/// The state of all families. Does not read the clock: the caller passes the seconds since the start of the
/// measurement.
class Progress {
 public:
  explicit Progress(const std::vector<std::string>& families);

  /// Processes an event of the ranks. Ignores events other than plans and rows, and families that are unknown.
  void heard(const Event&, double now);
  /// Records that a family has a result. The verdict is of this family only.
  void arrived(const std::string& family, const Verdict&, double now);

  /// Returns one line for each family and one for the total, each of at most `width` columns. No newline at the end.
  std::string text(double now, std::size_t width, bool color) const;
  /// Returns "[3/9] gemm: ok, 9 s; closest to its limit: ..." for the log of a finished family.
  std::string line_of(const std::string& family) const;

 private:
  struct Row {
    std::string family;
    std::optional<double> began, ended;
    std::optional<double> left;  // remaining seconds by the plan of the ranks
    double left_at = 0;
    int done = 0, total = 0;
    std::string doing;    // key of the current row
    std::string nearest;  // the figure closest to its limit, with its margin
    std::vector<std::string> failing;
  };
  static std::optional<double> left(const Row&, double now);
  Row* row_of(std::string_view family);
  std::string what(const Row&, double now) const;
  std::size_t arrived_count() const;

  std::vector<Row> rows_;
  double last_ended_ = 0;
};

/// Shows the progress on standard error. A terminal that supports it (not TERM=dumb) is redrawn in place, with colour
/// unless NO_COLOR is set. If standard error is not a terminal, a line is printed for each finished family.
class Screen {
 public:
  explicit Screen(const std::vector<std::string>& families);
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  void heard(const Event&);
  void arrived(const std::string& family, const Verdict&);
  /// Redraws the display if the last drawing is older than a quarter of a second.
  void tick();
  /// Removes the display, so that other output can be printed; the next tick draws it again.
  void clear();

  /// Reports once that the ranks send no events, and the reason if it is known.
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
