// The result of a judgement: the overall state, its findings, and the parts at fault.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thresholds/culprits/fleet_lines.hpp"
#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/history/scaling.hpp"
#include "thresholds/judge/step_times.hpp"
#include "thresholds/rules/rules.hpp"

namespace shakedown {

/// The overall state. incomplete: the run stopped early, or its input could not be read. partial: everything that was
/// requested is good, but it was not the whole run. fit: only pre-flight or the gate was requested, on GPUs, and is
/// good. virtual_run: the times are computed, whatever the findings are.
enum class State { pass, fail, inconclusive, no_reference, incomplete, host_only, partial, fit, virtual_run };

constexpr auto words(State) {
  return names("PASS", "FAIL", "INCONCLUSIVE", "NO REFERENCE", "INCOMPLETE", "HOST-ONLY", "PARTIAL", "FIT", "VIRTUAL");
}

/// True for states in which everything that was judged is good.
constexpr bool is_good(State state) {
  return state == State::pass || state == State::host_only || state == State::partial || state == State::fit;
}

/// A summary of one of the judgements, as one line.
struct Summary {
  Judgement by;
  std::string text;
};

/// A host of the run.
struct Node {
  std::string host;
  int ranks = 0;
};

/// A file that was judged.
struct ResultFile {
  std::string name, sha256;
  bool operator==(const ResultFile&) const = default;
};

struct Verdict {
  State state = State::incomplete;
  int exit_code = 3;
  std::size_t passed = 0, total = 0;
  std::string profile = "none";
  std::optional<Backend> backend;  // host: the best possible state is HOST-ONLY; virtual_gpu: the state is VIRTUAL
  int ranks = 0, hosts = 0;
  std::size_t known_families = 0;                 // number of families that were measured or that the profile names
  std::size_t families = 0, judged_families = 0;  // number of these that were requested, and of those that rules judged
  FamilySet asked;                                // if not empty, only these families were judged
  std::optional<std::string> filter;              // --benchmark_filter of the run, if it excluded rows
  bool is_gate = false;                           // true: the run has the rows of a gate
  std::vector<std::string> run_ids;
  std::vector<ResultFile> results;
  std::string started;  // start of the first file: UTC, ISO 8601; empty if unknown
  std::vector<std::string> devices;
  std::vector<Finding> findings;
  std::vector<Diagnosis> culprits;  // the worst first, warnings last
  std::vector<Summary> summaries;
  std::vector<Node> nodes;
  std::vector<Unjudged> unjudged;
  FleetLines fleet;
  /// Figures of benchmarks that were also measured with other numbers of nodes or ranks.
  std::vector<ScalingPoint> scaling;
  std::vector<GpuComparison> compared_gpus;  // with stored GPUs of their model
  std::vector<StepTimes> step_times;         // of profiled training steps
  std::vector<std::string> notes;            // notes for the user about the judgement

  /// True if a part of the whole run was not requested.
  bool is_partial() const { return is_gate || filter || (!asked.all() && families < known_families); }
};

/// Returns "3 of 14 families, as asked"; empty for a whole run.
std::string asked_text(const Verdict&);

/// Counts the findings, and sets state and exit code.
void conclude(Verdict&);

/// Returns "VERDICT: PASS 58/58 (profile h200-sxm, 4 ranks)". Hosts are added if there are several. Families are added
/// if not all were judged or requested: "VERDICT: NO REFERENCE 257/259 (profile h200-sxm, 16 ranks, 2 hosts, 7 of 9
/// families judged)", "VERDICT: PARTIAL 23/23 (profile h200-sxm, 4 ranks, 3 of 14 families, as asked)".
std::string verdict_line(const Verdict&);

}  // namespace shakedown
