// Compares settings with the defaults, by the size of messages and by a training step, and chooses those to recommend.
// The functions are pure. docs/statistics.md explains the test.
//
// A value is the median of one launch (docs/statistics.md, "One value per launch"). Turns inside one launch would be
// cheaper, but they share the launch: its memory addresses, clocks and cores. Two launches with equal settings then
// differ by more than the turns inside each of them show, and the test would prove differences that the setting did not
// cause.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/key.hpp"
#include "base/names.hpp"
#include "thresholds/history/change.hpp"

namespace shakedown {

/// A row that launches measure: a collective of one size, or a training step.
struct TunedRow {
  std::string row;          // "allreduce", "collectives/op:alltoall", or the key of a step
  std::uint64_t bytes = 0;  // size of the message; 0: a step

  bool is_step() const { return bytes == 0; }
  /// Returns "allreduce/bytes:N", "collectives/op:alltoall/bytes:N", or the key of the step.
  Key key() const;
  std::string_view metric() const { return is_step() ? "tokens_per_s" : "busbw_gb_per_s"; }

  auto operator<=>(const TunedRow&) const = default;
};

/// A setting, and its figures.
struct MeasuredSetting {
  std::vector<std::string> variables;              // such as "NCCL_ALGO=Ring"; empty: the defaults
  bool is_in_use = false;                          // true: the environment of this job had them
  std::map<TunedRow, std::vector<double>> values;  // in the unit of the metric, one value of each launch
  std::string missing;      // why a launch with this setting gave no value, such as an error of the library; else empty
  std::string source = {};  // guide that recommends it; empty: none

  /// Returns the variables, separated by blanks.
  std::string text() const;
};

/// What the figures say about a setting. mixed: faster in one row, slower in another. unavailable: a launch with this
/// setting gave no value.
enum class Advice { recommended, same, mixed, slower, undecided, unavailable };
constexpr auto words(Advice) { return names("recommended", "same", "mixed", "slower", "undecided", "not available"); }

struct JudgedSetting {
  MeasuredSetting measured;
  std::vector<Change> changes;  // against the defaults, by TunedRow: increasing sizes, then the step
  Advice advice = Advice::undecided;

  /// Returns the mean of the changes of all rows, in percent.
  double mean_percent() const;
  /// True if only a training step compared this setting.
  bool is_of_step() const;
  /// Returns the change of the row in which this setting loses most; nullptr if it is slower in none.
  const Change* worst() const;
};

struct Tuning {
  double min_effect = default_min_effect;
  int rounds = 0, needed_rounds = 0;  // measured, and required for a decision
  MeasuredSetting defaults;
  std::vector<JudgedSetting> settings;  // those in use first

  /// Returns the recommended setting with the largest mean gain; nullptr if there is none.
  const JudgedSetting* best() const { return best_of(false); }
  /// Returns the same among the settings that only a training step compared.
  const JudgedSetting* best_for_step() const { return best_of(true); }
  /// Returns 1 if a setting in use is slower than the defaults in a row; 3 if nothing was decided, or a setting in use
  /// is undecided; else 0.
  int exit_code() const;

 private:
  const JudgedSetting* best_of(bool step) const;
};

/// The probability that a tuning recommends any setting if all settings are equal to the defaults.
inline constexpr double false_recommendation = 1e-4;

/// Returns the number of rounds that a tuning needs: the rank test must reach its corrected level even if a few values
/// of both sides overlap. Each round has one launch of each setting and two of the defaults.
int rounds_needed(std::size_t settings, std::size_t rows);

/// Returns the launches of a round in order: 0 is the defaults, i the i-th setting. Each round begins and ends with the
/// defaults, and the settings of odd rounds are in reverse order (A B C A, A C B A), so that a drift affects all alike.
std::vector<std::size_t> launches_of_round(std::size_t settings, int round);

/// Judges each setting in each of its rows by the rank test and the minimal effect. The level is corrected for the
/// number of settings and rows (Bonferroni). A setting is recommended if it is proven faster in one row and loses in
/// none: for a loss, the 95 % bound of one row is enough. `rounds` is the number of complete rounds.
Tuning judge_tuning(MeasuredSetting defaults, std::vector<MeasuredSetting> settings, int rounds, double min_effect);

}  // namespace shakedown
