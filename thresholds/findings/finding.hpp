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

/// The status of one finding. waived: allowed by its rule; a waiver without permission is a fail.
enum class Status { pass, fail, missing, waived, invalid, inconclusive, no_reference };

constexpr auto words(Status) {
  return names("pass", "fail", "missing", "waived", "invalid", "inconclusive", "no reference");
}

/// The source of a finding: a limit of the profile, a stored baseline, other ranks of the run, other measurements of
/// the run, or the rounds of a soak.
enum class Judgement { rule, baseline, peers, crosscheck, series };
constexpr auto words(Judgement) { return names("rule", "baseline", "peers", "crosscheck", "series"); }

/// The kind of a finding as a stable word for programs; docs/verdict.md describes each.
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

/// How certain a finding is. twice, once: the number of independent measurements of a figure with noise. event:
/// something was read, counted or happened; another measurement cannot confirm it.
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

/// Returns "rank 3 node7 GPU-4f2a 0000:1b:00.0", without unknown parts.
std::string text(const Culprit&);

/// The comparison of a value with a limit. least: the shortest physically possible time.
enum class LimitKind { min, max, equals, spread_max, cv_max, samples_min, ceiling, least };

constexpr auto words(LimitKind) {
  return names("min", "max", "equals", "spread_max", "cv_max", "samples_min", "ceiling", "least");
}

struct Limit {
  LimitKind kind = LimitKind::min;
  double value = 0;

  /// True if `measured` is below a min, above a max or different from an equals. Other kinds do not limit the value of
  /// a rank.
  bool is_missed_by(double measured) const;

  /// Returns the relative distance on the bad side: above a max, below any other kind.
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
  Part part;                 // the worst, if there are several
  Key key;                   // "gemm/dtype:bf16/...", "machine/ranks", or a family
  std::string metric;        // empty for machine/...
  Judgement judgement = Judgement::rule;
  Status status = Status::pass;
  Severity severity = Severity::fail;
  std::optional<double> value;  // of the worst rank, or of the run
  std::optional<Limit> limit;   // without a value: the limit that a missing value had to meet
  std::string unit;
  std::optional<Culprit> worst;
  std::size_t offender_count = 0;
  std::vector<Culprit> offenders;  // at most max_offenders, the worst first
  std::vector<int> wrong_ranks;    // ranks with wrong data
  // After attribution (thresholds/units/missed_limits.hpp): all ranks that miss the limit by themselves. Empty: all
  // together.
  std::optional<std::vector<int>> own = std::nullopt;
  std::string detail;                           // the fault, or a remark
  std::string source;                           // of the rule
  std::string rule_at;                          // "thresholds/h200-sxm.yaml:12"
  std::string next;                             // command to run next; empty for a pass
  std::optional<Remedy> remedy = std::nullopt;  // of a fact
  std::optional<Seen> seen = std::nullopt;      // for the figure of its family: range in stored runs

  bool counts() const { return severity == Severity::fail; }
  /// Returns the comparison; nullopt if the finding has no value or no limit, such as an error row or a waiver.
  std::optional<Compared> compared() const {
    return value && limit ? std::optional(Compared{*value, *limit}) : std::nullopt;
  }
  bool good() const { return status == Status::pass || status == Status::waived; }
};

void set(Finding&, Status, std::string detail, std::string next);

/// Sets the code and the certainty of a finding. `times` is the number of measurements of its figure.
void classify(Finding&, Code, std::size_t times = 1);

/// Returns "machine/ranks": the key of findings of this code without a benchmark.
Key machine_key(Code);

/// Returns the GPU of a rank, or the host.
Part part_of(const Culprit&);

/// Names the first offenders, worst first, and counts all.
void name_offenders(Finding&, std::vector<Culprit>);

/// Returns "ssh node7 nvidia-smi -L": the command, to run on that host.
std::string on_host(const std::string& host, const std::string& command);

/// Returns the UUID, PCI address or number of a GPU, for nvidia-smi -i.
std::string gpu_in_command(const RankFacts&);

/// Returns the command that measures `key`, or a whole family, again.
std::string measure_command(std::string_view key, int ranks);

/// Makes a benchmark inconclusive because of missing or old software, which `why` names.
void set_software_missing(Finding&, const std::string& why, int ranks);

}  // namespace shakedown
