// The health data of a GPU under load: the reasons for lower clocks, and error counters, with their names in results.
// This file alone decides which reasons and counters are faults, and how messages name them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace shakedown {

/// By clock event reason ("sw_power_cap", "hw_thermal"): the fraction of the time, 0 to 1.
using Throttle = std::map<std::string, double>;

/// By error ("ecc_uncorrected", "nvlink_3_crc", "xid_79"): the number of errors.
using ErrorCounts = std::map<std::string, std::uint64_t>;

/// True for the reasons with which the hardware protects itself from heat or power faults, or the driver protects it
/// from heat, and for unknown reasons. False for the power cap, at which a loaded GPU normally runs, and for limits set
/// by the administrator.
bool protects_gpu(std::string_view reason);
/// is_heat: true if a thermal sensor caused the lower clock. is_power: true if the GPU or its power supply is at a
/// power limit. is_heat and is_power are both true for hw_slowdown, because either can cause it.
bool is_heat(std::string_view reason);
bool is_power(std::string_view reason);
/// True if an administrator has set the clock: `nvidia-smi -lgc` or `-ac`.
bool is_clock_setting(std::string_view reason);

/// Returns "sw_power_cap 38 %, hw_thermal 2 %". A share below 1 % is shown as 1 %, so that a rare event is not shown as
/// 0 %.
std::string throttle_text(const Throttle&);
/// Returns "software power cap 38 % of the time, hardware thermal slowdown 2 %".
std::string throttle_in_words(const Throttle&);

/// Returns "ECC uncorrected", "NVLink 3 CRC errors" or "XID 79"; the name itself if it is unknown.
std::string words_of_error(const std::string& counter);
/// True if the counter indicates a fault, and for unknown counters. False for harmless XIDs (base/known_events.hpp),
/// and for errors that were corrected or retried and cost only time.
bool is_fault(const std::string& counter);

/// Returns "ECC uncorrected +2; XID 48, 3 times in 7 rows". The counters are read once for several rows; `rows` is the
/// number of these rows.
std::string errors_text(const ErrorCounts&, int rows = 1);

}  // namespace shakedown
