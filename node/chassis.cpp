#include "node/chassis.hpp"

#include <fmt/format.h>

#include <ctime>
#include <map>
#include <sstream>

#include "base/files.hpp"
#include "base/known_events.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

using WallClock = std::chrono::system_clock;

/// An event as ipmitool prints it: "1 | 11/26/2026 | 00:58:40 | Memory #0x53 | Uncorrectable ECC | Asserted".
struct BmcEvent {
  WallClock::time_point at;
  std::string when, sensor, what;
  bool has_ended = false;
};

std::optional<BmcEvent> read_event(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream parts(line);
  for (std::string part; std::getline(parts, part, '|');) {
    const auto begin = part.find_first_not_of(' ');
    columns.push_back(begin == std::string::npos ? "" : part.substr(begin, part.find_last_not_of(' ') + 1 - begin));
  }
  if (columns.size() < 5) return std::nullopt;
  std::tm time{};
  const std::string when = columns[1] + " " + columns[2];
  const bool has_century = columns[1].size() == 10;  // 11/26/2026 in old versions, 11/26/26 in new ones
  if (strptime(when.c_str(), has_century ? "%m/%d/%Y %H:%M:%S" : "%m/%d/%y %H:%M:%S", &time) == nullptr) {
    return std::nullopt;
  }
  return BmcEvent{WallClock::from_time_t(timegm(&time)), when, columns[3], columns[4],
                  columns.size() > 5 && columns[5] == "Deasserted"};
}

const LogShape* fault_of(const BmcEvent& event) {
  for (const LogShape& shape : bmc_shapes()) {
    if (event.sensor.starts_with(shape.driver) && event.what.find(shape.contains) != std::string::npos) return &shape;
  }
  return nullptr;
}

}  // namespace

Facts fan_facts(const std::filesystem::path& root) {
  std::optional<std::vector<std::string>> failed;
  const auto folder = root / "sys/class/hwmon";
  for (const auto& chip : names_in(folder).value_or(std::vector<std::string>{})) {
    for (const auto& file : names_in(folder / chip).value_or(std::vector<std::string>{})) {
      if (!file.starts_with("fan") || !(file.ends_with("_alarm") || file.ends_with("_fault"))) continue;
      const auto value = number_of(folder / chip / file);
      if (!value) continue;
      if (!failed) failed.emplace();
      if (*value != 0) failed->push_back(line_of(folder / chip / "name").value_or(chip) + " " + file);
    }
  }
  return {{"fans_failed", failed ? number_fact(static_cast<double>(failed->size()), joined(*failed)) : Fact{}}};
}

std::optional<CommandOutput> read_bmc_log(const std::filesystem::path& root) {
  if (!is_visible(root / "dev/ipmi0")) return std::nullopt;
  return output_of({"ipmitool", "sel", "list", "last", "64"}, std::chrono::seconds(3), std::chrono::seconds(1));
}

Facts bmc_facts(const std::optional<CommandOutput>& log, WallClock::time_point since) {
  if (!log) return {{"bmc_faults", {}}};
  if (!log->started || log->timed_out || log->code != 0) {
    const char* const why = !log->started    ? "ipmitool is not installed"
                            : log->timed_out ? "the BMC did not answer for 3 s"
                                             : "ipmitool could not read the BMC's events";
    return {{"bmc_faults", number_fact(std::nullopt, why)}};
  }
  std::map<std::pair<std::string, std::string>, std::string> faults;  // sensor and event, in words
  std::istringstream lines(log->text);
  for (std::string line; std::getline(lines, line);) {
    const auto event = read_event(line);
    if (!event || event->at < since) continue;
    const auto* const fault = fault_of(*event);
    if (fault == nullptr) continue;
    if (event->has_ended) {
      faults.erase({event->sensor, event->what});
    } else {
      faults[{event->sensor, event->what}] =
          fmt::format("{}: {}, {}, {}", fault->means, event->sensor, event->what, event->when);
    }
  }
  std::vector<std::string> words;
  for (const auto& [event, text] : faults) words.push_back(one_line(text));
  return {{"bmc_faults", number_fact(static_cast<double>(words.size()), joined(words, "; "))}};
}

WallClock::time_point start_for_bmc(const std::filesystem::path& root) {
  const auto up = number_of(root / "proc/uptime").value_or(0);
  return WallClock::now() - std::chrono::seconds(static_cast<long>(up)) - std::chrono::hours(24);
}

}  // namespace shakedown
