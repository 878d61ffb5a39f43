// The judgement: a pure function of results, profiles and options. Whatever was not measured, verified and judged is
// not a pass. Each finding becomes one GoogleTest test of acceptance_test and one line of the report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thresholds/results.hpp"
#include "thresholds/thresholds.hpp"

namespace shakedown {

/// Of one finding. waived: allowed by its rule; a waiver that no rule allows is a fail.
enum class Status { pass, fail, missing, waived, invalid, inconclusive, no_reference };

/// Of the whole. incomplete: a run broke off, or its input could not be read.
enum class State { pass, fail, inconclusive, no_reference, incomplete, host_only };

constexpr auto words(Status) {
  return names("pass", "fail", "missing", "waived", "invalid", "inconclusive", "no reference");
}
constexpr auto words(State) { return names("PASS", "FAIL", "INCONCLUSIVE", "NO REFERENCE", "INCOMPLETE", "HOST-ONLY"); }

/// Who speaks in a finding: a limit of the profile, a stored baseline, the ranks of the same run, or what other
/// measurements of the same run predict.
enum class Judgement { rule, baseline, peers, crosscheck };
constexpr auto words(Judgement) { return names("rule", "baseline", "peers", "crosscheck"); }

/// A rank, or only a host, that a finding names.
struct Culprit {
  std::optional<int> rank;
  std::string host;
  std::optional<std::string> uuid, pci;
  std::optional<double> value;
  std::optional<int> local_rank = std::nullopt;
  std::optional<std::string> serial = std::nullopt;
};

/// "rank 3 node7 GPU-4f2a 0000:1b:00.0"; what is unknown is left out.
std::string text(const Culprit&);

inline constexpr std::size_t max_offenders = 10;  // named in a finding; the count is always complete

struct Finding {
  std::string key;     // "gemm/dtype:bf16/...", "machine/ranks", or a family
  std::string metric;  // empty for machine/...
  Judgement judgement = Judgement::rule;
  Status status = Status::pass;
  Severity severity = Severity::fail;
  std::optional<double> value;  // the worst rank's, or the run's
  std::optional<double> limit;
  std::string limit_name;  // "min", "max", "equals", "spread_max", "cv_max", "ceiling"
  std::string unit;
  std::optional<Culprit> worst;
  std::size_t offender_count = 0;
  std::vector<Culprit> offenders;  // at most max_offenders, the worst first
  std::string detail;              // what is wrong, or what is worth knowing
  std::string source;              // of the rule
  std::string rule_at;             // "thresholds/h200-sxm.yaml:12"
  std::string next;                // command to run next; empty for a pass

  bool counts() const { return severity == Severity::fail; }
  bool good() const { return status == Status::pass || status == Status::waived; }
};

/// What is at fault. slow_silicon is a healthy chip that power leaves a lower clock than others.
enum class Cause { slow_gpu, slow_link, slow_node, late_rank, wrong_data, configuration, power_or_heat, slow_silicon };
constexpr auto words(Cause) {
  return names("slow GPU", "slow link", "slow node", "late rank", "wrong data", "configuration", "power or heat",
               "slow silicon");
}

/// One measurement that speaks against a culprit.
struct Evidence {
  std::string key, metric;
  Judgement by = Judgement::peers;
  std::optional<double> value, expected;  // expected: the median of the peers, or the limit of a rule
  std::optional<double> percent;          // how far value is on the bad side of expected
  std::optional<double> mads;             // the same in MADs of the peers
};

inline constexpr std::size_t max_evidence = 6;  // shown for a culprit; the count is always complete

/// Findings put together: what is at fault, where it is and what to do. See thresholds/culprit.hpp.
struct Diagnosis {
  std::vector<Cause> causes;    // more than one where the evidence does not separate them, the likeliest first
  bool fails = true;            // false: said, because somebody will ask, and no reason to reject anything
  std::vector<Culprit> places;  // the GPU; of a link the source and the destination; of a node its host
  std::size_t place_count = 0;
  std::optional<double> percent, mads;  // of the strongest evidence
  std::vector<Evidence> evidence;       // at most max_evidence, the strongest first
  std::size_t evidence_count = 0;
  std::string detail;     // what was seen, in one sentence
  std::string telemetry;  // clock, power, temperature, throttling, errors; empty if there is none
  std::string next;       // command to run next
};

/// One of the judgements of a run, in one line.
struct Spoken {
  Judgement by;
  std::string text;
};

/// A host of the run.
struct Node {
  std::string host;
  int ranks = 0;
};

/// A benchmark that no rule judged.
struct Unjudged {
  std::string key, metric;
  std::optional<double> value;  // nullopt: waived
  std::string detail;           // reason of the waiver
};

struct Verdict {
  State state = State::incomplete;
  int exit_code = 3;
  std::size_t passed = 0, total = 0;
  std::string profile = "none";
  std::string backend;  // "host": the best possible state is HOST-ONLY
  int ranks = 0, hosts = 0;
  std::size_t families = 0, judged_families = 0;  // measured or named by the profile; of these, judged by its rules
  std::vector<std::string> run_ids;
  std::vector<std::string> devices;
  std::vector<Finding> findings;
  std::vector<Diagnosis> culprits;  // the worst first; those that fail nothing last
  std::vector<Spoken> spoken;
  std::vector<Node> nodes;
  std::vector<Unjudged> unjudged;
  std::vector<std::string> notes;  // what the reader must know about how this was judged
};

/// "VERDICT: PASS 58/58 (profile h200-sxm, 4 ranks)"; hosts only if more than one, families only if not all were
/// judged: "VERDICT: NO REFERENCE 257/259 (profile h200-sxm, 16 ranks, 2 hosts, 7 of 9 families judged)"
std::string verdict_line(const Verdict&);

/// One line of a roster: a host that must report and, if said, with how many ranks.
struct RosterEntry {
  std::string host;
  std::optional<int> ranks;
};

/// Lines "host", "host 8" or "host slots=8"; # starts a comment. Errors: InputError "file:line:1: what; what to do".
std::vector<RosterEntry> read_roster(const std::filesystem::path& file);

struct JudgeOptions {
  std::optional<std::string> family;  // judge this family only
  Expected expected;
  std::optional<std::string> run_id;  // the only run whose files are judged
  std::vector<RosterEntry> roster;
  bool mixed_runs = false;
  bool allow_faults = false;
};

/// Errors: InputError for no results at all, or for a file with an injected fault that options do not allow.
Verdict judge(const std::vector<Results>&, const std::vector<Profile>&, const JudgeOptions&);

/// Adds findings to a verdict that stands, and works out its state, exit code and counts again.
void add_findings(Verdict&, std::vector<Finding>);

/// Works out the culprits again, with the findings that were added since.
void name_culprits(Verdict&, const std::vector<Results>&, const JudgeOptions&);

/// How the findings of one key came about: the rules that name it, whether they apply and why not, what was measured.
/// Errors: InputError if the key was neither measured nor named by a rule.
std::string explain(const std::vector<Results>&, const std::vector<Profile>&, const JudgeOptions&,
                    const std::string& key);

/// The command that measures `key` (or, for a family, all of it) again.
std::string measure_command(std::string_view key, int ranks);

}  // namespace shakedown
