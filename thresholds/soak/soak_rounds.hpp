// The rounds of a soak: the data kept of each, and their file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

/// The request for a soak.
struct SoakPlan {
  std::string run_id, started;  // UTC, ISO 8601
  double duration_s = 0;
  std::uint64_t seed = 0;  // for the order of the families and for the pauses
  std::vector<std::string> families;
  Tier tier = Tier::quick;
  std::vector<std::string> flags = {};  // all other flags of the start; a resumed soak is judged by the same flags
};

/// The key of a round that ended without results. Its status is missing if ranks died, else inconclusive.
inline const std::string round_key = "machine/round";

/// A bad finding of a round.
struct RoundFinding {
  std::string key, metric;  // "suspect": the culprit from the combined values
  Status status = Status::fail;
  bool figure = false;  // a value that misses a limit or trails its peers; else a fact, an error or wrong data
  std::vector<std::string> places;  // units or hosts that it names
  std::string detail;
};

/// The data of a round that the series needs: about 10 kB for eight GPUs, so that a week fits on the disk.
struct SoakRound {
  int number = 1;
  std::string started;             // UTC
  double begin_s = 0;              // since the start of the soak, by the time of day
  double length_s = 0;             // by a monotonic clock
  double unwatched_s = 0;          // time without a measurement before it, after a kill or a reboot
  double rest_s = 0;               // planned pause before it
  std::vector<std::string> order;  // of its families
  std::vector<std::string> boots;  // "host boot-id"
  std::vector<RankFacts> ranks;    // empty: as in the previous round
  std::vector<std::string> units;  // by rank, a name that survives a reboot: a GPU's UUID, else host/number
  State state = State::incomplete;
  std::string profile, backend;
  int hosts = 0;
  std::size_t families = 0, judged_families = 0, known_families = 0;
  ByRank figures;   // by "key metric", the headline of each benchmark; a shared one has one value
  ByRank bits;      // checksums by "key algorithm": equal input and algorithm must give equal bits
  ByRank counters;  // of errors, from pre-flight
  std::vector<std::optional<std::string>> others;  // by rank: other users' processes on its GPU
  std::vector<RoundFinding> findings;              // at most max_findings
  std::size_t finding_count = 0;

  static constexpr std::size_t max_findings = 40;

  /// Returns the rank of the unit; nullopt if it was absent.
  std::optional<std::size_t> rank_of(const std::string& unit) const;
  /// Returns the value of the unit in `figures`, `bits` or `counters`; nullopt if it has none.
  std::optional<double> value(const ByRank SoakRound::*columns, const std::string& name, const std::string& unit) const;
  /// Returns a value that all ranks share.
  std::optional<double> shared_figure(const std::string& name) const;
};

struct Soak {
  SoakPlan plan;
  std::vector<SoakRound> rounds;

  double watched_s() const;  // rounds and pauses
  bool complete() const { return watched_s() >= plan.duration_s; }
  /// Returns the length of "the first hour": an hour, or a quarter of a short soak.
  double hour_s() const;
  /// Returns "hour 7.0 (2026-11-22T19:00:05Z)", or minutes for a soak of less than two hours.
  std::string when(const SoakRound&) const;
  /// Returns the names of the columns of all rounds.
  std::set<std::string> names(const ByRank SoakRound::*columns) const;
};

/// Returns a line of JSON for the soak file, which has the plan and then each round.
std::string soak_line(const SoakPlan&);
std::string soak_line(const SoakRound&);
/// Reads a soak. Ignores an incomplete last line, as after a kill. Errors: InputError with file and line.
Soak read_soak(const std::filesystem::path& folder);

/// Fills in a round from the results and the verdict of its run.
void summarize(const Measured&, const Verdict&, SoakRound&);

/// Returns the number rounded to a tenth, such as "7.0".
std::string number_with_one_digit(double);

}  // namespace shakedown
