// The table cells of a finding or a change, with the same wording in all renderers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns both with a space between, or the one that is not empty.
std::string joined_words(const std::string& a, const std::string& b);

/// "600 TFLOPS"
std::string quantity_text(double value, const std::string& unit);

/// Returns "600 TFLOPS", a short remark, "see below", or "-".
std::string value_text(const Finding&);
std::string value_text(const std::optional<double>& value, const std::string& metric);

/// A finding about the machine has no metric. Its detail is a remark, shown below the table if it is long.
bool is_long_remark(const Finding&);

std::string limit_text(const Finding&);   // "min 620"
std::string worst_text(const Finding&);   // "rank 3 node7 GPU-4f2a1b9c +1": enough to tell GPUs apart
std::string status_text(const Finding&);  // "fail", "missing", ...; "warn" or "info" for a lower severity
/// Returns a finding in one line: "fail 412 TFLOPS, limit min 620, rank 3 (node7): slow in GEMM".
std::string summary_text(const Finding&);

/// Returns waivers in the order of the findings, those with the same reason in one line: "preflight/of:folder (4
/// findings): no folder was named".
std::vector<std::string> waivers_text(const Verdict&);

/// Returns "36 measured values are judged by no rule, 2 more were waived"; empty if there are none.
std::string unjudged_text(const Verdict&);

/// Returns "98.8 %" of the expected value; "-" without one.
std::string efficiency_text(const ScalingPoint&);

/// Returns "-2.3 %" or "+0.4 %".
std::string signed_percent(double share);

/// Returns "median value, against its reference: allreduce +0.2 %, p2p +0.1 %", and the same for families with limits
/// only; one figure for each family. Empty without a profile.
std::vector<std::string> levels_text(const Verdict&);

/// Returns "rack r7 (64 GPUs): 2.3 % slower than the others in gemm, 8 C hotter": one line for each outlier of the
/// fleet.
std::vector<std::string> standing_off_text(const Verdict&);

std::string change_text(const Change&);  // "-14.3 % (-14.5 to -14.1)"
std::string trend_text(const Change&);   // "worse", "inconclusive: launches differ by 0.9 %: ..."
std::string count_text(const Change&);   // "9, 9"

/// Returns "REGRESSION: 2 worse, 0 missing, 1 inconclusive, 58 compared (minimal effect 1 %): gemm/... tflops -14.3 %
/// and 1 more"; without the colon and the rest if nothing is worse or missing.
std::string regression_line(const Regression&);

/// Returns what is worse, the largest change first, then what is missing.
std::vector<const Change*> worst_changes(const Regression&);

}  // namespace shakedown
