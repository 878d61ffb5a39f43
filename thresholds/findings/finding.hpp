// The result of one judgement about a benchmark, a host or a rank. Each finding becomes one GoogleTest test of
// acceptance_test and one line of the report.
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

/// The status of one finding. waived: its rule permits the waiver; a waiver without permission is a fail.
enum class Status { pass, fail, missing, waived, invalid, inconclusive, no_reference };

constexpr auto words(Status) {
  return names("pass", "fail", "missing", "waived", "invalid", "inconclusive", "no reference");
}

/// The reference of a value: a limit of the profile, a stored baseline, other ranks of the run, other
/// measurements of the run, or the rounds of a soak.
enum class Judgement { rule, baseline, peers, crosscheck, series };
constexpr auto words(Judgement) { return names("rule", "baseline", "peers", "crosscheck", "series"); }

/// The kind of a finding, as a word for programs that never changes. docs/verdict.md describes each.
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
  reference_gpus,
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
               "software_missing", "no_reference", "peers", "in_doubt", "population", "clock", "crosscheck",
               "reference_gpus", "baseline", "scaling", "pairs", "series", "complete", "run_id", "backend", "ranks",
               "hosts", "gpus", "unique_devices", "fault", "crashed", "driver_answers", "absent", "start_attempts",
               "errors", "slowdown", "memory", "nccl_transport", "nccl_network");
}

/// How certain a finding is. twice, once: the number of independent measurements of a figure with noise. event:
/// something was read or counted, or it happened; another measurement cannot confirm it.
enum class Sure { twice, once, event };
constexpr auto words(Sure) { return names("twice", "once", "event"); }

/// A rank that a finding names, or only a host.
struct Culprit {
  std::optional<int> rank;
  std::string host;
  std::optional<std::string> uuid, pci;
  std::optional<double> value;
  std::optional<int> local_rank = std::nullopt;
  std::optional<std::string> serial = std::nullopt;
};

/// Returns a rank as a culprit, with its value.
Culprit culprit(const RankFacts&, std::optional<double> value = std::nullopt);

Culprit host_culprit(const std::string& host);

/// Returns the culprit as text: "rank 3 node7 GPU-4f2a 0000:1b:00.0". Omits unknown parts.
std::string text(const Culprit&);

/// How a value is compared with a limit. least: the shortest time that is physically possible.
enum class LimitKind { min, max, equals, spread_max, cv_max, samples_min, ceiling, least };

constexpr auto words(LimitKind) {
  return names("min", "max", "equals", "spread_max", "cv_max", "samples_min", "ceiling", "least");
}

struct Limit {
  LimitKind kind = LimitKind::min;
  double value = 0;

  /// True if `measured` is below a min, above a max or not equal to an equals. Other kinds do not limit the value of a
  /// rank.
  bool is_missed_by(double measured) const;

  /// Returns how far the value misses the limit, relative to it: above a max, below any other kind.
  double shortfall(double measured) const;
};

/// A value and the limit that it was compared with.
struct Compared {
  double value;
  Limit limit;
};

/// Maximum number of offenders that a text shows; their count is always complete.
inline constexpr std::size_t max_offenders = 10;
/// A finding names its offenders, so that each node can be isolated, but no more than this, to save memory.
inline constexpr std::size_t max_named_offenders = 1000;

struct Finding {
  Code code = Code::limit;
  std::optional<Sure> sure;  // nullopt if nothing was measured or judged
  Part part;                 // the worst part, if there are several
  Key key;                   // "gemm/dtype:bf16/...", "machine/ranks", or a family
  std::string metric;        // empty for machine/...
  Judgement judgement = Judgement::rule;
  Status status = Status::pass;
  Severity severity = Severity::fail;
  std::optional<double> value;  // value of the worst rank, or of the run
  std::optional<Limit> limit;   // if there is no value: the limit that the missing value had to meet
  std::string unit;
  std::optional<Culprit> worst;
  std::size_t offender_count = 0;
  std::vector<Culprit> offenders;  // the worst first; at most most_named
  std::vector<int> wrong_ranks;    // ranks whose data was wrong
  // Set by attribution (thresholds/units/missed_limits.hpp): all ranks that miss the limit by themselves. Empty if the
  // whole fleet misses it.
  std::optional<std::vector<int>> own = std::nullopt;
  std::string detail;                                 // the fault, or a remark
  std::string source;                                 // source of the rule
  std::string rule_at;                                // place of the rule: "thresholds/h200-sxm.yaml:12"
  std::string next;                                   // command to run next; empty for a pass
  std::optional<Remedy> remedy = std::nullopt;        // for a fact of the machine: its remedy
  std::optional<std::size_t> culprit = std::nullopt;  // index of the culprit of the verdict that explains it
  std::optional<Seen> seen = std::nullopt;            // for the figure that the profile marks: its range in stored runs

  bool counts() const { return severity == Severity::fail; }
  /// Returns the comparison; nullopt if the finding has no value or no limit, as for an error row or a waiver.
  std::optional<Compared> compared() const {
    return value && limit ? std::optional(Compared{*value, *limit}) : std::nullopt;
  }
  bool good() const { return status == Status::pass || status == Status::waived; }
};

void set(Finding&, Status, std::string detail, std::string next);

/// Sets the code of a finding, and how certain it is. `times` is the number of measurements of its figure.
void classify(Finding&, Code, std::size_t times = 1);

/// Returns the key of findings of this code that belong to no benchmark: "machine/ranks".
Key machine_key(Code);

/// Returns the GPU of a rank; the host if no rank is known.
Part part_of(const Culprit&);

/// Stores the first offenders, worst first, and the number of all offenders.
void name_offenders(Finding&, std::vector<Culprit>);

/// Returns the command as it is run on that host: "ssh node7 nvidia-smi -L".
std::string on_host(const std::string& host, const std::string& command);

/// Returns the UUID, PCI address or index of a GPU, for use in nvidia-smi -i.
std::string gpu_in_command(const RankFacts&);

/// Returns the command that measures `key`, or a whole family, again.
std::string measure_command(std::string_view key, int ranks);

/// Makes the finding of a benchmark inconclusive because software is missing or too old. `why` names the software.
void set_software_missing(Finding&, const std::string& why, int ranks);

}  // namespace shakedown
