#include "base/gpu_health.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <vector>

#include "base/known_events.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

// Clock event reasons of NVML, in the order in which reports list them.
struct Reason {
  std::string_view name, words;
  bool protects = false, heat = false, power = false;
};
constexpr std::array<Reason, 8> reasons{{{"sw_power_cap", "software power cap", false, false, true},
                                         {"hw_slowdown", "hardware slowdown", true},
                                         {"sw_thermal", "software thermal slowdown", true, true},
                                         {"hw_thermal", "hardware thermal slowdown", true, true},
                                         {"hw_power_brake", "power brake of the server", true, false, true},
                                         {"sync_boost", "clock synchronised with other GPUs"},
                                         {"applications_setting", "clock limited by a setting"},
                                         {"display_setting", "clock limited by the display"}}};

const Reason* find_reason(std::string_view name) {
  const auto* const found =
      std::find_if(reasons.begin(), reasons.end(), [&](const Reason& reason) { return reason.name == name; });
  return found == reasons.end() ? nullptr : found;
}

// An error counter. "#" in its name is the number of a link or of an XID.
struct Counter {
  std::string_view name, words;
  bool fault;
};
constexpr std::array<Counter, 9> counters{
    {{"ecc_corrected", "ECC corrected", false},
     {"ecc_uncorrected", "ECC uncorrected", true},
     {"pcie_replays", "PCIe replays", false},
     {"remapped_rows_corrected", "rows remapped after corrected errors", true},
     {"remapped_rows_uncorrected", "rows remapped after uncorrected errors", true},
     {"nvlink_#_replays", "NVLink # replays", false},
     {"nvlink_#_recoveries", "NVLink # recoveries", false},
     {"nvlink_#_crc", "NVLink # CRC errors", false},
     {"xid_#", "XID #", true}}};

// The counter to which a name belongs, and the number in the name if it contains one.
struct Counted {
  const Counter* counter = nullptr;
  std::string number;
};
Counted find_counter(const std::string& name) {
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto first = std::find_if(name.begin(), name.end(), digit), last = std::find_if_not(first, name.end(), digit);
  const std::string general =
      std::string(name.begin(), first) + (first == last ? "" : "#") + std::string(last, name.end());
  for (const Counter& counter : counters) {
    if (counter.name == general) return {&counter, std::string(first, last)};
  }
  return {};
}

bool is_xid(const Counter& counter) { return counter.name == "xid_#"; }

std::string percent(double part) { return std::to_string(std::max(1L, std::lround(part * 100))) + " %"; }

// Returns the known reasons in table order, followed by the unknown ones.
std::vector<std::string> in_order(const Throttle& throttle) {
  std::vector<std::string> names;
  for (const Reason& reason : reasons) {
    if (throttle.contains(std::string(reason.name))) names.emplace_back(reason.name);
  }
  for (const auto& [name, part] : throttle) {
    if (find_reason(name) == nullptr) names.push_back(name);
  }
  return names;
}

}  // namespace

bool protects_gpu(std::string_view reason) {
  const Reason* const known = find_reason(reason);
  return known == nullptr || known->protects;
}

bool is_heat(std::string_view reason) {
  const Reason* const known = find_reason(reason);
  return known != nullptr && known->heat;
}

bool is_power(std::string_view reason) {
  const Reason* const known = find_reason(reason);
  return known != nullptr && known->power;
}

bool is_clock_setting(std::string_view reason) { return reason == "applications_setting"; }

std::string throttle_text(const Throttle& throttle) {
  std::vector<std::string> parts;
  for (const std::string& name : in_order(throttle)) parts.push_back(name + " " + percent(throttle.at(name)));
  return joined(parts);
}

std::string throttle_in_words(const Throttle& throttle) {
  std::string text;
  for (const std::string& name : in_order(throttle)) {
    const Reason* const known = find_reason(name);
    text += (text.empty() ? "" : ", ") + (known != nullptr ? std::string(known->words) : name) + " " +
            percent(throttle.at(name)) + (text.empty() ? " of the time" : "");
  }
  return text;
}

std::string words_of_error(const std::string& name) {
  const auto [counter, number] = find_counter(name);
  if (counter == nullptr) return name;
  std::string words(counter->words);
  if (const auto at = words.find('#'); at != std::string::npos) words.replace(at, 1, number);
  return words;
}

bool is_fault(const std::string& name) {
  const auto [counter, number] = find_counter(name);
  if (counter == nullptr) return true;
  return counter->fault && !(is_xid(*counter) && number.size() < 6 && is_harmless(std::stoi(number)));
}

std::string errors_text(const ErrorCounts& errors, int rows) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : errors) {
    const Counter* const counter = find_counter(name).counter;
    const bool xid = counter != nullptr && is_xid(*counter);
    parts.push_back(words_of_error(name) + (!xid        ? " +" + std::to_string(count)
                                            : count > 1 ? ", " + std::to_string(count) + " times"
                                                        : ""));
  }
  return joined(parts, "; ") + (rows > 1 && !parts.empty() ? " in " + std::to_string(rows) + " rows" : "");
}

}  // namespace shakedown
