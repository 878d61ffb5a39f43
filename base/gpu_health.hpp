// The health data of a GPU under load, by their names in results: the reasons for lower clocks, and error counters.
// This file alone decides which of them are faults and how they are worded for people.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace shakedown {

/// Fraction of the time, 0 to 1, for each clock event reason: "sw_power_cap", "hw_thermal".
using Throttle = std::map<std::string, double>;

/// Counts by error: "ecc_uncorrected", "nvlink_3_crc", "xid_79".
using ErrorCounts = std::map<std::string, std::uint64_t>;

/// True for reasons by which the hardware protects itself from heat or power faults, and the driver from heat. False
/// for the power cap, at which a loaded GPU normally runs, and for limits set by the administrator. True for unknown
/// reasons.
bool protects_gpu(std::string_view reason);
/// is_heat: true if a thermal sensor triggered it. is_power: true if the GPU or its power supply is at a power limit.
/// hw_slowdown can be either.
bool is_heat(std::string_view reason);
bool is_power(std::string_view reason);
/// True if an administrator has set the clock: `nvidia-smi -lgc` or `-ac`.
bool is_clock_setting(std::string_view reason);

/// Returns "sw_power_cap 38 %, hw_thermal 2 %". Shares below 1 % are shown as 1 %, so that rare events do not look like
/// none.
std::string throttle_text(const Throttle&);
/// Returns "software power cap 38 % of the time, hardware thermal slowdown 2 %".
std::string throttle_in_words(const Throttle&);

/// Returns "ECC uncorrected", "NVLink 3 CRC errors" or "XID 79"; the name itself if it is unknown.
std::string words_of_error(const std::string& counter);
/// True if the counter indicates a fault. False for harmless XIDs (base/known_events.hpp), and for errors that were
/// corrected or retried at the cost of time only. True for unknown counters.
bool is_fault(const std::string& counter);

/// Returns "ECC uncorrected +2; XID 48, 3 times in 7 rows". `rows` is the number of rows that share one reading of the
/// counters.
std::string errors_text(const ErrorCounts&, int rows = 1);

}  // namespace shakedown
