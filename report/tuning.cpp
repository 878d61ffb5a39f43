#include "report/tuning.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/parse_number.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {

namespace {

std::string size_of(const Change& change) {
  return bytes_text(static_cast<std::uint64_t>(change.key.number("bytes").value_or(0)));
}

std::string gain_text(const Change& change) {
  const auto interval =
      change.low && change.high ? fmt::format(", 95 %: {:+.1f} to {:+.1f}", *change.low, *change.high) : std::string();
  return fmt::format("{:+.1f} %{}", change.percent.value_or(0), interval);
}

std::string line_of_size(const Change& change) {
  return fmt::format("  {:>8}  {} ({} GB/s, by default {}): {}\n", size_of(change), gain_text(change),
                     number_text(change.after.value_or(0)), number_text(change.before.value_or(0)), name(change.trend));
}

std::string text_of_setting(const JudgedSetting& setting) {
  const auto& measured = setting.measured;
  auto text = measured.text() + (measured.is_in_use ? " (in use): " : ": ") + std::string(name(setting.advice));
  if (!measured.missing.empty()) text += ": " + printable(measured.missing);
  text += "\n";
  if (setting.advice == Advice::unavailable) return text;
  for (const Change& change : setting.changes) text += line_of_size(change);
  return text;
}

/// Returns what the settings in use cost, the most costly first.
std::vector<std::string> costs_in_use(const Tuning& tuning) {
  std::vector<std::string> costs;
  for (const JudgedSetting& setting : tuning.settings) {
    const Change* const worst = setting.worst();
    if (!setting.measured.is_in_use || worst == nullptr) continue;
    costs.push_back(fmt::format("{} costs {:.1f} % at {}: unset it", setting.measured.text(),
                                -worst->percent.value_or(0), size_of(*worst)));
  }
  return costs;
}

nlohmann::ordered_json json_of_change(const Change& change) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  return {{"bytes", change.key.number("bytes").value_or(0)},
          {"status", name(change.trend)},
          {"percent", optional(change.percent)},
          {"low", optional(change.low)},
          {"high", optional(change.high)},
          {"default_gb_per_s", optional(change.before)},
          {"gb_per_s", optional(change.after)},
          {"detail", change.detail}};
}

nlohmann::ordered_json json_of_setting(const MeasuredSetting& setting) {
  nlohmann::ordered_json launches = nlohmann::ordered_json::object();
  for (const auto& [bytes, values] : setting.busbw) launches[std::to_string(bytes)] = values;
  return {{"setting", setting.text()},
          {"in_use", setting.is_in_use},
          {"missing", setting.missing},
          {"busbw_gb_per_s", launches}};
}

}  // namespace

std::string tuning_line(const Tuning& tuning) {
  const auto costs = costs_in_use(tuning);
  if (!costs.empty()) return "TUNE: " + joined(costs, "; ");
  if (const JudgedSetting* const best = tuning.best()) {
    return fmt::format("TUNE: recommended: {}, {:+.1f} % on average", best->measured.text(), best->mean_percent());
  }
  if (tuning.exit_code() != 0) {
    const bool short_of_time = tuning.rounds < tuning.needed_rounds;
    return "TUNE: INCONCLUSIVE: " +
           (short_of_time ? fmt::format("{} of {} rounds were measured; give more --time, or fewer --candidates or "
                                        "--sizes",
                                        tuning.rounds, tuning.needed_rounds)
                          : std::string("the launches differ too much; end other programs, and tune again"));
  }
  return "TUNE: the default is best: no setting is faster";
}

std::string tuning_text(const Tuning& tuning) {
  std::string text;
  for (const JudgedSetting& setting : tuning.settings) text += text_of_setting(setting);
  return text + tuning_line(tuning) + "\n";
}

std::string tuning_json(const Tuning& tuning) {
  nlohmann::ordered_json document{{"schema", 1},
                                  {"summary", tuning_line(tuning)},
                                  {"exit_code", tuning.exit_code()},
                                  {"rounds", tuning.rounds},
                                  {"needed_rounds", tuning.needed_rounds},
                                  {"min_effect", tuning.min_effect},
                                  {"defaults", json_of_setting(tuning.defaults)}};
  const JudgedSetting* const best = tuning.best();
  document["recommended"] = best == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(best->measured.text());
  document["settings"] = nlohmann::ordered_json::array();
  for (const JudgedSetting& setting : tuning.settings) {
    auto json = json_of_setting(setting.measured);
    json["advice"] = name(setting.advice);
    json["changes"] = nlohmann::ordered_json::array();
    for (const Change& change : setting.changes) json["changes"].push_back(json_of_change(change));
    document["settings"].push_back(std::move(json));
  }
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string nccl_conf(const Tuning& tuning) {
  const JudgedSetting* const best = tuning.best();
  if (best == nullptr) return "# no setting is recommended; tune.json has the reason\n";
  std::string text = "# against the defaults, by AllReduce of each size\n";
  for (const Change& change : best->changes) text += "# " + size_of(change) + ": " + gain_text(change) + "\n";
  return text + joined(best->measured.variables, "\n") + "\n";
}

}  // namespace shakedown
