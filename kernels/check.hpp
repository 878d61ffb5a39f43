// Outcome of a data check, and who collects it.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>

namespace shakedown {

/// Outcome of a data check. Nothing compared is a failed check.
struct Check {
  std::size_t compared = 0;
  std::size_t mismatched = 0;
  std::string first;  // where, got, expected; empty when nothing is wrong
  bool passed() const { return compared > 0 && mismatched == 0; }
};

/// Collects the comparisons of one check: how many, how many were wrong, and where the first one was.
class Checker {
 public:
  template <class T>
  void expect_equal(std::size_t index, T got, T want) {
    expect(got == want, index, got, want);
  }

  /// NaN never agrees.
  void expect_near(std::size_t index, double got, double want, double tolerance) {
    const double distance = got > want ? got - want : want - got;
    expect(distance <= tolerance, index, got, want);
  }

  const Check& result() const { return check_; }

 private:
  template <class T>
  void expect(bool agrees, std::size_t index, T got, T want) {
    ++check_.compared;
    if (agrees) return;
    if (check_.mismatched++ > 0) return;
    std::ostringstream text;
    text.precision(9);  // tells a float from its neighbours
    text << "element " << index << " is " << got << ", expected " << want;
    check_.first = text.str();
  }

  Check check_;
};

}  // namespace shakedown
