// The reports of the chassis about its fans, and the event log of its management controller (BMC).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "base/process.hpp"
#include "node/fact.hpp"
#include "node/inventory.hpp"

namespace shakedown {

/// Returns fans_failed: fans with an alarm or a fault, with their names, as Linux reports them (hwmon). Unknown if
/// Linux does not report fans, for example because only the BMC reads them.
Facts fan_facts(const std::filesystem::path& root);

/// Asks the BMC for its latest events with ipmitool; nullopt if the host has no BMC. A BMC needs about 20 ms for each
/// event, so that only some are read, and has 3 s.
std::optional<CommandOutput> read_bmc_log(const std::filesystem::path& root);

/// Returns bmc_faults: events since this time that mean a fault and have not ended, with their sensors. `log`: the
/// output of `ipmitool sel list`. The kinds of events are those of events.yaml. An event without a date is left out.
Facts bmc_facts(const std::optional<CommandOutput>& log, std::chrono::system_clock::time_point since);

/// Returns the time of the host's start, minus a day, because the clock of a BMC may be in any time zone.
std::chrono::system_clock::time_point start_for_bmc(const std::filesystem::path& root);

}  // namespace shakedown
