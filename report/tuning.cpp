#include "report/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/key.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {

namespace {

/// Returns "64 KiB" for an AllReduce, "all_gather, 64 KiB" for another collective, "step" for a training step.
std::string place_of(const Key& key) {
  const auto bytes = key.number("bytes");
  if (!bytes) return "step";
  const std::string op(key.part("op"));
  return (op.empty() ? op : op + ", ") + bytes_text(static_cast<std::uint64_t>(*bytes));
}

bool key_has_bytes(const Key& key) { return key.number("bytes").has_value(); }

std::string unit_of(const Change& change) { return key_has_bytes(change.key) ? "GB/s" : "tokens/s"; }

std::string gain_text(const Change& change) {
  const auto interval =
      change.low && change.high ? fmt::format(", 95 %: {:+.1f} to {:+.1f}", *change.low, *change.high) : std::string();
  return fmt::format("{:+.1f} %{}", change.percent.value_or(0), interval);
}

std::string line_of_row(const Change& change) {
  return fmt::format("  {:>8}  {} ({} {}, by default {}): {}\n", place_of(change.key), gain_text(change),
                     number_text(change.after.value_or(0)), unit_of(change), number_text(change.before.value_or(0)),
                     name(change.trend));
}

std::string text_of_setting(const JudgedSetting& setting) {
  const auto& measured = setting.measured;
  auto text = measured.text() + (measured.is_in_use ? " (in use): " : ": ") + std::string(name(setting.advice));
  if (!measured.missing.empty()) text += ": " + printable(measured.missing);
  text += "\n";
  if (setting.advice == Advice::unavailable) return text;
  for (const Change& change : setting.changes) text += line_of_row(change);
  return text;
}

/// Returns a table of the changes in percent, with a line for each setting and a column for each row. A change that is
/// not proven has a "?".
std::string table_of_changes(const Tuning& tuning) {
  std::vector<Table::Cell> head{{"change in %"}};
  for (const auto& [row, values] : tuning.defaults.values) head.push_back({place_of(row.key())});
  Table table(std::move(head));
  for (const JudgedSetting& setting : tuning.settings) {
    std::vector<std::string> cells{setting.measured.text()};
    for (const auto& [row, values] : tuning.defaults.values) {
      const auto change = std::ranges::find(setting.changes, row.key(), &Change::key);
      const bool known = change != setting.changes.end() && change->percent;
      const bool proven = known && change->trend != Trend::inconclusive && change->trend != Trend::noisy;
      cells.push_back(known ? fmt::format("{:+.1f}{}", *change->percent, proven ? "" : "?") : "-");
    }
    table.add_words(cells);
  }
  return table.text({.grid = true});
}

/// Returns what the settings in use cost, the most costly first.
std::vector<std::string> costs_in_use(const Tuning& tuning) {
  std::vector<std::string> costs;
  for (const JudgedSetting& setting : tuning.settings) {
    const Change* const worst = setting.worst();
    if (!setting.measured.is_in_use || worst == nullptr) continue;
    const auto where = key_has_bytes(worst->key) ? "at " + place_of(worst->key) : "in the training step";
    costs.push_back(
        fmt::format("{} costs {:.1f} % {}: unset it", setting.measured.text(), -worst->percent.value_or(0), where));
  }
  return costs;
}

nlohmann::ordered_json json_of_change(const Change& change) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  const std::string unit = key_has_bytes(change.key) ? "gb_per_s" : "tokens_per_s";
  return {{"key", change.key.text()},
          {"bytes", change.key.number("bytes").value_or(0)},
          {"status", name(change.trend)},
          {"percent", optional(change.percent)},
          {"low", optional(change.low)},
          {"high", optional(change.high)},
          {"default_" + unit, optional(change.before)},
          {unit, optional(change.after)},
          {"detail", change.detail}};
}

nlohmann::ordered_json json_of_setting(const MeasuredSetting& setting) {
  nlohmann::ordered_json json{{"setting", setting.text()},
                              {"in_use", setting.is_in_use},
                              {"missing", setting.missing},
                              {"source", setting.source},
                              {"busbw_gb_per_s", nlohmann::ordered_json::object()}};
  for (const auto& [row, values] : setting.values) {
    // AllReduces have their size as name, other rows their key.
    const auto name = row.row == "allreduce" ? std::to_string(row.bytes) : row.key().text();
    json[std::string(row.metric())][name] = values;
  }
  return json;
}

}  // namespace

std::string tuning_line(const Tuning& tuning) {
  const auto costs = costs_in_use(tuning);
  if (!costs.empty()) return "TUNE: " + joined(costs, "; ");
  std::vector<std::string> recommended;
  if (const JudgedSetting* const best = tuning.best()) {
    recommended.push_back(fmt::format("{}, {:+.1f} % on average", best->measured.text(), best->mean_percent()));
  }
  if (const JudgedSetting* const best = tuning.best_for_step()) {
    recommended.push_back(
        fmt::format("{}, {:+.1f} % in the training step", best->measured.text(), best->mean_percent()));
  }
  if (!recommended.empty()) return "TUNE: recommended: " + joined(recommended, "; ");
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
  if (tuning.settings.size() > 1) text += table_of_changes(tuning);
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
  const auto name_of = [](const JudgedSetting* setting) {
    return setting == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(setting->measured.text());
  };
  document["recommended"] = name_of(tuning.best());
  document["recommended_for_step"] = name_of(tuning.best_for_step());
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
  std::string text = "# against the defaults, by row\n";
  for (const Change& change : best->changes) text += "# " + place_of(change.key) + ": " + gain_text(change) + "\n";
  for (const auto& variable : best->measured.variables) {
    // NCCL reads only its own variables from the file.
    text += (variable.starts_with("NCCL_") ? "" : "# in the environment of the job: ") + variable + "\n";
  }
  return text;
}

}  // namespace shakedown
