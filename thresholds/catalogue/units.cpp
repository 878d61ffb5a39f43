// The units of metrics, and numbers as people read them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

using Text = std::string_view;

// The last words of a name are its unit.
struct Unit {
  Text end, unit;
  bool lower_is_better = false;
};
constexpr std::array<Unit, 25> units{{{"tflops", "TFLOPS"},
                                      {"tflops_per_ghz", "TFLOPS/GHz"},
                                      {"tflops_per_w", "TFLOPS/W"},
                                      {"_gb_per_s", "GB/s"},
                                      {"_gb", "GB"},
                                      {"_ns", "ns", true},
                                      {"_us", "us", true},
                                      {"_ms", "ms", true},
                                      {"power_w", "W"},
                                      {"power_limit_w", "W"},
                                      {"temperature_c", "C", true},
                                      {"_c", "C"},
                                      {"_mhz", "MHz"},
                                      {"_gbit", "Gb/s"},
                                      {"joule_per_token", "J/token", true},
                                      {"tokens_per_s", "tokens/s"},
                                      {"samples_per_s", "samples/s"},
                                      {"tokens_per_s_total", "tokens/s"},
                                      {"tokens_per_s_per_ghz", "tokens/s/GHz"},
                                      {"files_per_s", "files/s"},
                                      {"visible_s", "s", true},
                                      {"seconds", "", true},
                                      {"throttled", "", true},
                                      {"stolen", "", true},
                                      {"waited", "", true}}};

const Unit* find_unit(Text metric) {
  const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return metric.ends_with(u.end); });
  return found == units.end() ? nullptr : &*found;
}

}  // namespace

std::string unit_of(Text metric) {
  const Unit* unit = find_unit(metric);
  return std::string(unit == nullptr ? "" : unit->unit);
}

bool lower_is_better(Text metric) {
  const Unit* unit = find_unit(metric);
  return metric == "cv" || (unit != nullptr && unit->lower_is_better);
}

std::string number_text(double value) {
  return std::abs(value) >= 1e5 && std::abs(value) < 1e18 ? fmt::format("{:.0f}", value) : fmt::format("{:.5g}", value);
}

}  // namespace shakedown
