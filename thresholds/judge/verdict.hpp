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
#include "thresholds/rules/rules.hpp"

namespace shakedown {

/// The overall state. incomplete: the run stopped early, or its input could not be read. partial: everything requested
/// is good, but the request was not the whole run. fit: the same for pre-flight alone, on GPUs. virtual_run: the times
/// are computed, whatever the findings are.
enum class State { pass, fail, inconclusive, no_reference, incomplete, host_only, partial, fit, virtual_run };

constexpr auto words(State) {
  return names("PASS", "FAIL", "INCONCLUSIVE", "NO REFERENCE", "INCOMPLETE", "HOST-ONLY", "PARTIAL", "FIT", "VIRTUAL");
}

/// True for states in which everything judged is good.
constexpr bool is_good(State state) {
  return state == State::pass || state == State::host_only || state == State::partial || state == State::fit;
}

/// One of the judgements of a run, in one line.
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
  std::optional<Backend> backend;  // host: the best possible state is HOST-ONLY; virtual_gpu: VIRTUAL
  int ranks = 0, hosts = 0;
  std::size_t known_families = 0;                 // measured or named by the profile
  std::size_t families = 0, judged_families = 0;  // of these: requested; of those: judged by rules
  FamilySet asked;                                // if not empty, only these families were judged
  std::optional<std::string> filter;              // --benchmark_filter of a run that omitted rows
  std::vector<std::string> run_ids;
  std::vector<ResultFile> results;
  std::string started;  // of the first file, UTC, ISO 8601; empty: unknown
  std::vector<std::string> devices;
  std::vector<Finding> findings;
  std::vector<Diagnosis> culprits;  // the worst first; warnings last
  std::vector<Summary> summaries;
  std::vector<Node> nodes;
  std::vector<Unjudged> unjudged;
  FleetLines fleet;
  std::vector<ScalingPoint> scaling;  // of benchmarks that were also measured with other numbers of nodes or ranks
  std::vector<std::string> notes;     // notes about the judgement for the reader

  /// True if a part of a whole run was not requested.
  bool is_partial() const { return filter || (!asked.all() && families < known_families); }
};

/// Returns "3 of 14 families, as asked"; empty for a whole run.
std::string asked_text(const Verdict&);

/// Counts the findings, and sets state and exit code from them.
void conclude(Verdict&);

/// "VERDICT: PASS 58/58 (profile h200-sxm, 4 ranks)"; hosts only if more than one, families only if not all were
/// judged or asked for: "VERDICT: NO REFERENCE 257/259 (profile h200-sxm, 16 ranks, 2 hosts, 7 of 9 families judged)",
/// "VERDICT: PARTIAL 23/23 (profile h200-sxm, 4 ranks, 3 of 14 families, as asked)"
std::string verdict_line(const Verdict&);

}  // namespace shakedown
