// The rounds of a soak: the data that is stored of each round, and the file that has them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/figure_name.hpp"
#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The soak that the user requested.
struct SoakPlan {
  std::string run_id, started;  // UTC, ISO 8601
  double duration_s = 0;
  std::uint64_t seed = 0;  // random seed of the order of families and of the pauses
  std::vector<std::string> families;
  Tier tier = Tier::quick;
  /// All other flags with which the soak began; a resumed soak is judged by the same flags.
  std::vector<std::string> flags = {};
};

/// The key of a finding about a round that ended without results. The status of this finding is missing if ranks died,
/// else inconclusive.
inline const Key round_key("machine/round");

/// A bad finding of a round.
struct RoundFinding {
  Key key;  // "suspect" for a culprit that was found from all values together
  std::string metric;
  Status status = Status::fail;
  /// True: a value that misses a limit, or is an outlier among its peers; false: a fact, an error or wrong data.
  bool figure = false;
  std::vector<std::string> places;  // units or hosts that it names
  std::string detail;
};

/// The data of one round that the judgement of the series needs. The data of a round is about 10 kB for eight GPUs, so
/// that a week fits on the disk.
struct SoakRound {
  int number = 1;
  std::string started;             // UTC
  double begin_s = 0;              // since the start of the soak, by the time of day
  double length_s = 0;             // duration by a monotonic clock
  double unwatched_s = 0;          // time without a measurement before the round, after a kill or a reboot
  double rest_s = 0;               // planned pause before the round
  std::vector<std::string> order;  // order in which it measured the families
  std::vector<std::string> boots;  // "host boot-id" of each host
  std::vector<RankFacts> ranks;    // empty if they are the same as in the previous round
  /// By rank: a name that a reboot does not change: the UUID of the GPU, else host/number.
  std::vector<std::string> units;
  State state = State::incomplete;
  std::string profile, backend;
  int hosts = 0;
  std::size_t families = 0, judged_families = 0, known_families = 0;
  /// The headline figure of each benchmark, by rank; a figure that all ranks share has one value.
  std::map<FigureName, RankValues> figures;
  /// By key and algorithm: checksums; equal input and algorithm must give equal bits.
  std::map<FigureName, RankValues> bits;
  ByRank counters;                                 // error counters, from pre-flight
  std::vector<std::optional<std::string>> others;  // by rank: processes of other users on its GPU
  std::vector<RoundFinding> findings;              // at most max_findings entries
  std::size_t finding_count = 0;

  static constexpr std::size_t max_findings = 40;

  /// Returns the rank of a unit; nullopt if the unit was absent.
  std::optional<std::size_t> rank_of(const std::string& unit) const;
  /// Returns the value of a unit in `figures`, `bits` or `counters`; nullopt if it has none.
  template <class Columns>
  std::optional<double> value(const Columns SoakRound::*columns, const typename Columns::key_type& name,
                              const std::string& unit) const {
    const auto found = (this->*columns).find(name);
    const auto rank = rank_of(unit);
    if (found == (this->*columns).end() || !rank || *rank >= found->second.size()) return std::nullopt;
    return found->second[*rank];
  }
  /// Returns a value that all ranks share.
  std::optional<double> shared_figure(const FigureName&) const;
};

struct Soak {
  SoakPlan plan;
  std::vector<SoakRound> rounds;

  double watched_s() const;  // sum of rounds and pauses
  bool complete() const { return watched_s() >= plan.duration_s; }
  /// Returns the length of "the first hour": an hour, or a quarter of a short soak.
  double hour_s() const;
  /// Returns the time of a round: "hour 7.0 (2026-11-22T19:00:05Z)". In a soak of less than two hours it is in minutes.
  std::string when(const SoakRound&) const;
  /// Returns the names of the columns that any round has.
  template <class Columns>
  std::set<typename Columns::key_type> names(const Columns SoakRound::*columns) const {
    std::set<typename Columns::key_type> result;
    for (const SoakRound& round : rounds) {
      for (const auto& [name, values] : round.*columns) result.insert(name);
    }
    return result;
  }
};

/// Calls visit(round, value) for each value of a unit over the rounds.
template <class Columns, class Visitor>
void each_value(const Soak& soak, const Columns SoakRound::*columns, const typename Columns::key_type& name,
                const std::string& unit, Visitor visit) {
  for (std::size_t i = 0; i < soak.rounds.size(); ++i) {
    if (const auto value = soak.rounds[i].value(columns, name, unit)) visit(i, *value);
  }
}

/// Returns the plan, or a round, as a line of JSON for the file of the soak. The plan is the first line.
std::string soak_line(const SoakPlan&);
std::string soak_line(const SoakRound&);
/// Reads a soak. Ignores an incomplete last line, which a kill may leave. Errors: InputError with file and line.
Soak read_soak(const std::filesystem::path& folder);

/// Sets the members of a round from the results and the verdict of its run.
void summarize(const Measured&, const Verdict&, SoakRound&);

/// Returns the number rounded to a tenth, such as "7.0".
std::string number_with_one_digit(double);

}  // namespace shakedown
