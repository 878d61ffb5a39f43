#include "launch/time_left.hpp"

#include <chrono>
#include <string>
#include <vector>

#include "base/parse_number.hpp"
#include "base/process.hpp"

namespace shakedown {
namespace {

std::optional<double> seconds_in(std::string_view text) {
  const auto value = whole_number<double>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

/// Returns the output of a scheduler's command. Empty if the command fails or does not answer in time.
std::string said_by(const std::vector<std::string>& command) {
  const auto output = output_of(command, std::chrono::seconds(5));
  return output.started && output.code == 0 ? output.text : "";
}

}  // namespace

std::optional<double> seconds_of_squeue(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(" \n") + 1);
  double days = 0;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = seconds_in(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  if (text.find(':') == std::string_view::npos) return std::nullopt;
  double seconds = 0;
  for (bool last = false; !last;) {
    const auto colon = text.find(':');
    last = colon == std::string_view::npos;
    const auto number = seconds_in(text.substr(0, colon));
    if (!number) return std::nullopt;
    seconds = seconds * 60 + *number;
    if (!last) text.remove_prefix(colon + 1);
  }
  return days * 86400 + seconds;
}

std::optional<double> seconds_of_bjobs(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(" \n") + 1);
  if (text.size() < 2 || text.substr(text.size() - 2) != " L") return std::nullopt;
  const auto minutes = seconds_of_squeue(text.substr(0, text.size() - 2));
  return minutes ? std::optional(60 * *minutes) : std::nullopt;
}

std::optional<double> seconds_of_qstat(std::string_view text) {
  const auto seconds_after = [&](std::string_view attribute) -> std::optional<double> {
    const auto at = text.find(attribute);
    if (at == std::string_view::npos) return std::nullopt;
    const auto value = text.substr(at + attribute.size());
    return seconds_of_squeue(value.substr(0, value.find('\n')));
  };
  const auto limit = seconds_after("Resource_List.walltime = ");
  // resources_used.walltime is absent at first, because the PBS server updates it only from time to time.
  return limit ? std::optional(*limit - seconds_after("resources_used.walltime = ").value_or(0)) : std::nullopt;
}

std::optional<double> seconds_left(const Environment& environment, double seconds_since_1970) {
  if (const auto end = environment("SLURM_JOB_END_TIME")) {
    const auto at = seconds_in(*end);
    return at ? std::optional(*at - seconds_since_1970) : std::nullopt;
  }
  if (const auto job = environment("SLURM_JOB_ID")) {
    return seconds_of_squeue(said_by({"squeue", "-h", "-j", *job, "-o", "%L"}));
  }
  if (const auto job = environment("LSB_JOBID")) {
    // A job that is not part of an array has the index 0.
    const auto index = environment("LSB_JOBINDEX").value_or("0");
    const auto name = index == "0" ? *job : *job + "[" + index + "]";
    return seconds_of_bjobs(said_by({"bjobs", "-noheader", "-o", "time_left", name}));
  }
  if (const auto job = environment("PBS_JOBID")) {
    if (const auto left = seconds_of_qstat(said_by({"qstat", "-f", *job}))) return left;
  }
  if (const auto whole = environment("PBS_WALLTIME")) return seconds_in(*whole);
  return std::nullopt;
}

}  // namespace shakedown
