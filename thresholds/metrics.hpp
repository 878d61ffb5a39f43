// What a metric means: unit, direction, ceiling, and who has it in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "thresholds/profile.hpp"

namespace shakedown {

/// The highest value that physics allows for a metric of a benchmark run by `ranks` ranks on `hosts` hosts, as the
/// peaks of the profile give it; nullopt where there is no such bound. `nvls`: the switch may add, as it may where
/// nothing is known. A closed table.
std::optional<double> ceiling(const Profile&, std::string_view key, std::string_view metric, int ranks, int hosts,
                              bool nvls = true);
std::optional<double> ceiling(const Profile&, std::string_view key, std::string_view metric, const Context&);

/// Model FLOPs per token of a LoRA step of Qwen2-7B (rank 64 on all seven projections, frozen base) at 4096 tokens a
/// sequence: forward and the gradient of the activations of all linear layers, attention, and the adapters three times.
inline constexpr double qwen2_7b_flops_per_token = 32.13e9;

/// How far a measurement may stand above its ceiling before it is invalid (rounding of clocks and data sheets).
inline constexpr double ceiling_allowance = 1.01;

/// True if ranks wait for each other inside the benchmark, so that its times do not show whose fault they are.
bool is_collective(std::string_view family);

/// True of figures that all ranks have in common: of collectives, and the rate of a step in which all wait for the
/// slowest. Such a figure accuses no single rank.
bool is_shared(std::string_view key, std::string_view metric);

/// Times: lower is better. Everything else: higher is better.
bool lower_is_better(std::string_view metric);

/// "TFLOPS" for tflops, "GB/s" for copy_gb_per_s, ...
std::string unit_of(std::string_view metric);

/// Five significant digits, never an exponent below a million: "793.2", "0.0008", "1073741824".
std::string number_text(double value);

}  // namespace shakedown
