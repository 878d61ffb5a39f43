// The live board of an acceptance: a line per family with its progress and seconds, the figure that is
// nearest to its limit, that limit, and the failures so far.
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

/// A finding in one line: status, figure, limit, and where.
std::string short_text(const Finding&);

/// Whether the finding is of this family, and makes it fail.
bool makes_fail(const Finding&, const std::string& family);

/// The state of all families. Pure: the caller counts seconds from the start of the measurement.
class Progress {
 public:
  explicit Progress(const std::vector<std::string>& families);

  /// An event of the ranks; only their plan and rows of known families change anything.
  void heard(const Event&, double now);
  /// A family has its result. The verdict is of this family alone.
  void arrived(const std::string& family, const Verdict&, double now);

  /// A line per family, then the total; each at most `width` columns. No newline at the end.
  std::string text(double now, std::size_t width, bool color) const;
  /// "[3/9] gemm: ok, 9 s; nearest to its limit: ...": of a family that has arrived, for a log.
  std::string line_of(const std::string& family) const;

 private:
  struct Row {
    std::string family;
    std::optional<double> began, ended;
    std::optional<double> left;  // seconds, as the ranks planned, when they said so
    double left_at = 0;
    int done = 0, total = 0;
    std::string doing;    // key of the row that is measured
    std::string nearest;  // to its limit
    std::vector<std::string> failing;
  };
  static std::optional<double> left(const Row&, double now);
  Row* row_of(std::string_view family);
  std::string what(const Row&, double now) const;
  std::size_t arrived_count() const;

  std::vector<Row> rows_;
  double last_ended_ = 0;
};

/// Shows a board on standard error: drawn in place where that is a terminal that can do so (not TERM=dumb), in color
/// unless NO_COLOR is set, and left there when it ends; elsewhere a line for each family that is done.
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
  /// Takes the board away before other output; the next tick draws it again.
  void clear();

  /// Says once that the ranks send no events, and why, if that is known.
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
