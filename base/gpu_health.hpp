// What a GPU says of its own state while it works, by the names that results have for it: what holds its clocks down,
// and the errors that it counts. Which of these are faults, and the words for people, are known here only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace shakedown {

/// Parts of the time, from 0 to 1, by what held a clock down: "sw_power_cap", "hw_thermal".
using Throttle = std::map<std::string, double>;

/// Counts by what was counted: "ecc_uncorrected", "nvlink_3_crc", "xid_79".
using ErrorCounts = std::map<std::string, std::uint64_t>;

/// The hardware's own protection from heat and from its supply, and the driver's from heat. Not the power cap, which is
/// what a loaded GPU works at, nor what somebody has set. A reason that is not known counts.
bool protects_gpu(std::string_view reason);
/// A sensor of heat says so; the power of the GPU, or of its supply, is at its limit. hw_slowdown may be either.
bool is_heat(std::string_view reason);
bool is_power(std::string_view reason);

/// "sw_power_cap 38 %, hw_thermal 2 %". Seldom is not never: what is less than one in a hundred is 1 %.
std::string throttle_text(const Throttle&);
/// "software power cap 38 % of the time, hardware thermal slowdown 2 %"
std::string throttle_in_words(const Throttle&);

/// "ECC uncorrected", "NVLink 3 CRC errors", "XID 79"; the name itself where it is not known.
std::string words_of_error(const std::string& counter);
/// Not what a program causes on a healthy GPU, and not what was corrected or repeated and cost only time. Whatever else
/// was counted is a fault, known or not.
bool is_fault(const std::string& counter);
/// Of XIDs: those that a program causes by what it does.
bool caused_by_program(int xid);

/// "ECC uncorrected +2; XID 48, 3 times in 7 rows"; `rows`: that share one reading of the counters.
std::string errors_text(const ErrorCounts&, int rows = 1);

}  // namespace shakedown
