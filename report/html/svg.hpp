// Drawings in SVG, from numbers. Colours are classes of the page's style. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shakedown::svg {

struct Point {
  double x = 0, y = 0;
  std::string title;  // shown when somebody points at it
};

struct Line {
  std::string name, style;  // "main", "floor" or "roof"
  std::vector<Point> points;
  bool dots = false;
};

/// Sizes in bytes from left to right, each twice the one before; from 0 upwards.
std::string over_bytes(const std::string& title, const std::string& unit, const std::vector<Line>&);

/// A bar of `part` of its full length, a mark at `floor`; parts of one.
std::string bar(const std::string& title, double part, std::optional<double> floor, bool low);

struct Piece {
  std::string name, style;  // "f1" ... "f5"
  double value = 0;
};
/// Pieces of one whole behind each other, of `longest` at most.
std::string pieces(const std::string& title, const std::vector<Piece>&, double longest);

/// How many values are how large; those beyond `limit` are marked. `unit` stands behind the numbers at the ends.
std::string distribution(const std::string& title, std::vector<double> values, std::optional<double> limit,
                         const std::string& unit);

struct Step {
  double value = 0;
  bool marked = false;
  std::string title;
};
/// Values one after the other, those that are marked as dots of another colour; from the lowest to the highest.
std::string course(const std::string& title, const std::vector<Step>&);

/// "8 B", "1 MiB"
std::string bytes_text(double bytes);

}  // namespace shakedown::svg
