#include "report/gauges.hpp"

#include <fmt/format.h>

#include <cmath>

#include "report/escape.hpp"

namespace shakedown {
namespace {

std::string number(double value) { return fmt::format("{:.17g}", value); }

std::string braces(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += (text.empty() ? "" : ",") + std::string(name) + "=\"" + label_escaped(value) + "\"";
  }
  return text.empty() ? "" : "{" + text + "}";
}

}  // namespace

void Gauges::add(const std::string& name, const char* help, const Labels& labels, double value) {
  Gauge& gauge = gauges_[name];
  gauge.help = help;
  if (!std::isfinite(value) || !gauge.seen.insert(braces(labels)).second) return;
  gauge.samples += name + braces(labels) + " " + number(value) + "\n";
}

std::string Gauges::text() const {
  std::string out;
  for (const auto& [name, gauge] : gauges_) {
    if (gauge.samples.empty()) continue;
    out += "# HELP " + name + " " + gauge.help + "\n# TYPE " + name + " gauge\n" + gauge.samples;
  }
  return out;
}

}  // namespace shakedown
