// The result of one judgement on a benchmark, host or rank. Each finding becomes one GoogleTest test of acceptance_test
// and one line of the report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/catalogue/remedies.hpp"
#include "thresholds/findings/part.hpp"
#include "thresholds/findings/seen.hpp"
#include "thresholds/findings/severity.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// The status of one finding. waived: allowed by its rule; a waiver that no rule allows is a fail.
enum class Status { pass, fail, missing, waived, invalid, inconclusive, no_reference };

constexpr auto words(Status) {
  return names("pass", "fail", "missing", "waived", "invalid", "inconclusive", "no reference");
}

/// The source of a finding: a limit of the profile, a stored baseline, the ranks of the same run, what other
/// measurements of the same run predict, or the rounds of a watch.
enum class Judgement { rule, baseline, peers, crosscheck, series };
constexpr auto words(Judgement) { return names("rule", "baseline", "peers", "crosscheck", "series"); }

/// The kind of a finding, in a word that stays the same for programs; docs/verdict.md has the meaning of each.
enum class Code {
  limit,
  fact,
  scatter,
  untrue,
  wrong_data,
  error,
  not_measured,
  waiver,
  software_missing,
  no_reference,
  peers,
  in_doubt,
  population,
  clock,
  crosscheck,
  baseline,
  scaling,
  pairs,
  series,
  complete,
  run_id,
  backend,
  ranks,
  hosts,
  gpus,
  unique_devices,
  fault,
  crashed,
  driver_answers,
  absent,
  start_attempts,
  errors,
  slowdown,
  memory,
  nccl_transport,
  nccl_network
};
constexpr auto words(Code) {
  return names("limit", "fact", "scatter", "untrue", "wrong_data", "error", "not_measured", "waiver",
               "software_missing", "no_reference", "peers", "in_doubt", "population", "clock", "crosscheck", "baseline",
               "scaling", "pairs", "series", "complete", "run_id", "backend", "ranks", "hosts", "gpus",
               "unique_devices", "fault", "crashed", "driver_answers", "absent", "start_attempts", "errors", "slowdown",
               "memory", "nccl_transport", "nccl_network");
}

/// How sure a finding is. twice, once: a figure that scatters was measured so often. event: something was read, counted
/// or happened, which no second measurement confirms or denies.
enum class Sure { twice, once, event };
constexpr auto words(Sure) { return names("twice", "once", "event"); }

/// A rank, or only a host, that a finding names.
struct Culprit {
  std::optional<int> rank;
  std::string host;
  std::optional<std::string> uuid, pci;
  std::optional<double> value;
  std::optional<int> local_rank = std::nullopt;
  std::optional<std::string> serial = std::nullopt;
};

/// A part that may be at fault, with its value.
Culprit culprit(const RankFacts&, std::optional<double> value = std::nullopt);

Culprit host_culprit(const std::string& host);

/// "rank 3 node7 GPU-4f2a 0000:1b:00.0"; what is unknown is left out.
std::string text(const Culprit&);

/// How a value is compared with a limit. least: the shortest time that physics allows.
enum class LimitKind { min, max, equals, spread_max, cv_max, samples_min, ceiling, least };

constexpr auto words(LimitKind) {
  return names("min", "max", "equals", "spread_max", "cv_max", "samples_min", "ceiling", "least");
}

struct Limit {
  LimitKind kind = LimitKind::min;
  double value = 0;

  /// Whether `measured` is below a min, above a max or different from an equals; the other kinds limit something else
  /// than the value of a rank.
  bool is_missed_by(double measured) const;

  /// The relative distance on the bad side: above a max, below any other kind.
  double shortfall(double measured) const;
};

/// A value and the limit that it was compared with.
struct Compared {
  double value;
  Limit limit;
};

inline constexpr std::size_t max_offenders = 10;  // named in a finding; the count is always complete

struct Finding {
  Code code = Code::limit;
  std::optional<Sure> sure;  // nullopt: nothing was measured or judged
  Part part;                 // the worst, where there are several
  Key key;                   // "gemm/dtype:bf16/...", "machine/ranks", or a family
  std::string metric;        // empty for machine/...
  Judgement judgement = Judgement::rule;
  Status status = Status::pass;
  Severity severity = Severity::fail;
  std::optional<double> value;  // the worst rank's, or the run's
  std::optional<Limit> limit;   // without a value: what a missing value was asked for
  std::string unit;
  std::optional<Culprit> worst;
  std::size_t offender_count = 0;
  std::vector<Culprit> offenders;  // at most max_offenders, the worst first
  std::vector<int> wrong_ranks;    // whose data were wrong
  // Where it was weighed (thresholds/units/missed_limits.hpp): all ranks that miss the limit by themselves; none: all
  // together.
  std::optional<std::vector<int>> own = std::nullopt;
  std::string detail;                           // what is wrong, or what is worth knowing
  std::string source;                           // of the rule
  std::string rule_at;                          // "thresholds/h200-sxm.yaml:12"
  std::string next;                             // command to run next; empty for a pass
  std::optional<Remedy> remedy = std::nullopt;  // of a fact
  std::optional<Seen> seen = std::nullopt;      // of the figure of its family: what stored runs have

  bool counts() const { return severity == Severity::fail; }
  /// nullopt if the finding has no value or no limit: for example a row with an error, or one that was waived.
  std::optional<Compared> compared() const {
    return value && limit ? std::optional(Compared{*value, *limit}) : std::nullopt;
  }
  bool good() const { return status == Status::pass || status == Status::waived; }
};

void set(Finding&, Status, std::string detail, std::string next);

/// Sets the code and how sure a finding of this kind is. `times`: how often its figure was measured.
void classify(Finding&, Code, std::size_t times = 1);

/// "machine/ranks": the key of findings of this code that are about no benchmark.
Key machine_key(Code);

/// The GPU of a rank, or the host.
Part part_of(const Culprit&);

/// Names the first of them, the worst first, and counts all.
void name_offenders(Finding&, std::vector<Culprit>);

/// "ssh node7 nvidia-smi -L": the command, to be run there.
std::string on_host(const std::string& host, const std::string& command);

/// Its UUID, PCI address or number, for nvidia-smi -i.
std::string gpu_in_command(const RankFacts&);

/// The command that measures `key` (or, for a family, all of it) again.
std::string measure_command(std::string_view key, int ranks);

/// Leaves a benchmark open for which software is missing or too old: `why` names it.
void set_software_missing(Finding&, const std::string& why, int ranks);

}  // namespace shakedown
