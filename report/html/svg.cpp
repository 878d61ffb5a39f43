#include "report/html/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/escape.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown::svg {
namespace {

std::string opened(double width, double height, const std::string& title, const std::string& classes = "") {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"{}>", width, height, html_escaped(title),
                     classes.empty() ? "" : " class=\"" + classes + "\"");
}

std::string tip(const std::string& text) { return text.empty() ? "" : "<title>" + html_escaped(text) + "</title>"; }

std::string words(double x, double y, const std::string& anchor, const std::string& text, const char* classes = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>", x, y, anchor, classes,
                     html_escaped(text));
}

// 1, 2 or 5 times a power of ten, some five of them up to `top`.
double step_of(double top) {
  const double raw = top / 5, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, bytes == std::floor(bytes) ? 0 : 1, units[unit]);
}

std::string over_bytes(const std::string& title, const std::string& unit, const std::vector<Line>& lines) {
  constexpr double width = 760, height = 300, left = 52, right = 96, top = 26, bottom = 34;
  double low = 0, high = 0, highest = 0;
  for (const Line& line : lines) {
    for (const Point& point : line.points) {
      low = low == 0 ? point.x : std::min(low, point.x);
      high = std::max(high, point.x);
      highest = std::max(highest, point.y);
    }
  }
  if (low <= 0 || highest <= 0) return "";
  const double step = step_of(highest), roof = step * std::ceil(highest / step);
  const double decades = std::max(1.0, std::log2(high / low));
  const auto x = [&](double value) { return left + (width - left - right) * std::log2(value / low) / decades; };
  const auto y = [&](double value) { return height - bottom - (height - top - bottom) * value / roof; };
  std::string out = opened(width, height, title);
  for (double value = 0; value <= roof * 1.001; value += step) {
    out += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>", left, y(value), width - right);
    out += words(left - 6, y(value) + 4, "end", number_text(value));
  }
  for (double value = low; value <= high * 1.001; value *= decades > 12 ? 32 : 4) {
    out += words(x(value), height - 14, "middle", bytes_text(value));
  }
  out += words(left - 6, 11, "end", unit);
  std::vector<double> taken;  // heights of names at the right, which must not lie on each other
  for (const Line& line : lines) {
    if (line.points.empty()) continue;
    std::string path, dots;
    for (const Point& point : line.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(point.x), y(point.y));
      if (line.dots) {
        dots += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\">{}</circle>",
                            line.style == "main" ? "dot" : "floor-dot", x(point.x), y(point.y), tip(point.title));
      }
    }
    out += "<path class=\"" + line.style + "\" d=\"" + path + "\"/>" + dots;
    double at = y(line.points.back().y) + 4;
    while (std::any_of(taken.begin(), taken.end(), [&](double other) { return std::abs(other - at) < 14; })) at += 7;
    taken.push_back(at);
    out += words(x(line.points.back().x) + 9, at, "start", line.name, " class=\"ink\"");
  }
  return out + "</svg>";
}

std::string bar(const std::string& title, double part, std::optional<double> floor, bool low) {
  constexpr double width = 300, height = 18;
  std::string out = opened(width, height, title, "bar");
  out.insert(4, " preserveAspectRatio=\"none\"");
  out += fmt::format("<rect class=\"f5\" width=\"{}\" height=\"18\" opacity=\".45\"/>", width);
  out += fmt::format("<rect class=\"bar{}\" y=\"3\" width=\"{:.1f}\" height=\"12\"/>", low ? " low" : "",
                     width * std::clamp(part, 0.0, 1.0));
  if (floor) out += fmt::format("<path class=\"mark\" d=\"M{:.1f} 0V18\"/>", width * std::clamp(*floor, 0.0, 1.0));
  return out + tip(title) + "</svg>";
}

std::string pieces(const std::string& title, const std::vector<Piece>& all, double longest) {
  constexpr double width = 760, height = 26;
  std::string out = opened(width, height, title);
  double at = 0;
  for (const Piece& piece : all) {
    const double wide = longest > 0 ? width * std::max(0.0, piece.value) / longest : 0;
    out += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" width=\"{:.1f}\" height=\"24\">{}</rect>", piece.style, at,
                       wide, tip(piece.name + " " + number_text(piece.value)));
    const std::string text = piece.name + " " + fmt::format("{:.1f}", piece.value);
    if (wide > 7.2 * static_cast<double>(text.size())) {
      out += words(at + 5, 17, "start", text, " class=\"ink\"");
    }
    at += wide;
  }
  return out + "</svg>";
}

std::string distribution(const std::string& title, std::vector<double> values, std::optional<double> limit,
                         const std::string& unit) {
  constexpr double width = 360, height = 110, bottom = 20;
  constexpr std::size_t bins = 36;
  if (values.empty()) return "";
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double from = *low, wide = std::max(*high - from, 1e-9);
  std::array<std::size_t, bins> count{};
  for (const double value : values) {
    const double part = (value - from) / wide;
    ++count[part < 1 ? static_cast<std::size_t>(part * static_cast<double>(bins)) : bins - 1];
  }
  const auto most = static_cast<double>(*std::max_element(count.begin(), count.end()));
  std::string out = opened(width, height, title);
  const double each = width / static_cast<double>(bins);
  for (std::size_t i = 0; i < bins; ++i) {
    if (count[i] == 0) continue;
    const double middle = from + wide * (static_cast<double>(i) + 0.5) / static_cast<double>(bins);
    // By the logarithm, so that one of 10,000 is seen.
    const double tall = (height - bottom - 12) * std::log1p(static_cast<double>(count[i])) / std::log1p(most);
    out += fmt::format("<rect class=\"bin{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">{}</rect>",
                       limit && middle < *limit ? " bad" : "", each * static_cast<double>(i), height - bottom - tall,
                       each - 1, tall, tip(fmt::format("{} near {} {}", count[i], number_text(middle), unit)));
  }
  if (limit && *limit > from) {
    const double at = width * (*limit - from) / wide;
    out += fmt::format("<path class=\"floor\" d=\"M{0:.1f} 8V{1}\"/>", at, height - bottom);
  }
  out += fmt::format("<path class=\"grid\" d=\"M0 {0}H{1}\"/>", height - bottom, width);
  out += words(0, height - 5, "start", fmt::format("{:.1f} {}", from, unit));
  out += words(width, height - 5, "end", fmt::format("{:.1f} {}", *high, unit));
  return out + "</svg>";
}

std::string course(const std::string& title, const std::vector<Step>& steps) {
  constexpr double width = 220, height = 40, margin = 6;
  if (steps.empty()) return "";
  const auto [low, high] =
      std::minmax_element(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.value < b.value; });
  // A course that varies by less than 2 % is shown as nearly level.
  const double middle = (low->value + high->value) / 2;
  const double wide = std::max({high->value - low->value, 0.02 * std::abs(middle), 1e-12});
  std::string path, dots;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double part = steps.size() < 2 ? 0.5 : static_cast<double>(i) / static_cast<double>(steps.size() - 1);
    const double x = margin + (width - 2 * margin) * part;
    const double y = height / 2 - (height - 2 * margin) * (steps[i].value - middle) / wide;
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
    dots += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\">{}</circle>",
                        steps[i].marked ? "floor-dot" : "dot", x, y, tip(steps[i].title));
  }
  return opened(width, height, title) + "<path class=\"main\" d=\"" + path + "\"/>" + dots + "</svg>";
}

}  // namespace shakedown::svg
