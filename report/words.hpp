// The table cells of a finding or a change. All renderers use the same wording.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/culprits/consequences.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns both texts with a space between them; if one is empty, returns the other.
std::string joined_words(const std::string& a, const std::string& b);

/// "600 TFLOPS"
std::string quantity_text(double value, const std::string& unit);

/// Returns "600 TFLOPS", a short remark, "see below", or "-".
std::string value_text(const Finding&);
std::string value_text(const std::optional<double>& value, const std::string& metric);

/// True if the detail of a finding about the machine is too long for the table and is printed below it. Such a finding
/// has no metric, so its detail is the remark.
bool is_long_remark(const Finding&);

std::string limit_text(const Finding&);   // "min 620"
std::string worst_text(const Finding&);   // "rank 3 node7 GPU-4f2a1b9c +1", which is enough to identify the GPU
std::string status_text(const Finding&);  // "fail", "missing", ...; "warn" or "info" for a lower severity
/// Returns a finding in one line: "fail 412 TFLOPS, limit min 620, rank 3 (node7): slow in GEMM".
std::string summary_text(const Finding&);

/// Returns the findings that are not good, the worst first (thresholds/findings/order.hpp).
std::vector<const Finding*> bad_findings(const Verdict&);

/// Returns the bad findings that no culprit explains, in the same order.
std::vector<const Finding*> unexplained_findings(const Verdict&);

/// Returns "explains 95 findings, 3 warnings among them; the worst: AllReduce f32, 8 GiB (busbw_gb_per_s), 13.9 %
/// beyond its limit". Empty without findings.
std::string consequences_text(const Consequences&);

/// Returns one line for all waived findings with the same reason, in the order of the findings: "preflight/of:folder (4
/// findings): no folder was named".
std::vector<std::string> waivers_text(const Verdict&);

/// Returns "36 measured values are judged by no rule, 2 more were waived". Empty if all values are judged.
std::string unjudged_text(const Verdict&);

/// Returns "98.8 %" of the expected value; "-" if no value is expected.
std::string efficiency_text(const ScalingPoint&);

/// Returns a rank with the first eight digits of its UUID, which identify a GPU of a cluster together with rank and
/// host.
std::string short_text(Culprit);

/// Returns "-2.3 %" or "+0.4 %".
std::string signed_percent(double share);

/// Returns one figure for each family: "median value, against its reference: allreduce +0.2 %, p2p +0.1 %". Families
/// that have only limits are in a second text. Empty without a profile.
std::vector<std::string> levels_text(const Verdict&);

/// Returns one line for each outlier of the fleet: "rack r7 (64 GPUs): 2.3 % slower than the others in gemm, 8 C
/// hotter".
std::vector<std::string> standing_off_text(const Verdict&);

/// Returns {"lora_step/...", "gemm", "231.90", "52.1 %"} for each class of time of the profiled steps, and a line for
/// each whole step that says what timed it.
std::vector<std::array<std::string, 4>> step_time_rows(const Verdict&);

std::string change_text(const Change&);  // "-14.3 % (-14.5 to -14.1)"
std::string trend_text(const Change&);   // "worse", "inconclusive: launches differ by 0.9 %: ..."
std::string count_text(const Change&);   // "9, 9"

/// Returns "REGRESSION: 2 worse, 0 missing, 1 inconclusive, 58 compared (minimal effect 1 %): gemm/... tflops -14.3 %
/// and 1 more". The colon and the rest are absent if nothing is worse or missing.
std::string regression_line(const Regression&);

/// True if the figure has not changed, or if the comparison cannot judge it.
bool is_quiet(const Change&);

/// Returns the worse figures, the largest change first, and after them the missing figures.
std::vector<const Change*> worst_changes(const Regression&);

}  // namespace shakedown
