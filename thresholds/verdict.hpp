// What a judgement comes to: the state of the whole, its findings, and what they say is at fault.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thresholds/diagnosis.hpp"
#include "thresholds/fleet_lines.hpp"
#include "thresholds/rules.hpp"
#include "thresholds/scaling.hpp"

namespace shakedown {

/// Of the whole. incomplete: a run broke off, or its input could not be read.
enum class State { pass, fail, inconclusive, no_reference, incomplete, host_only };

constexpr auto words(State) { return names("PASS", "FAIL", "INCONCLUSIVE", "NO REFERENCE", "INCOMPLETE", "HOST-ONLY"); }

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

struct Verdict {
  State state = State::incomplete;
  int exit_code = 3;
  std::size_t passed = 0, total = 0;
  std::string profile = "none";
  std::string backend;  // "host": the best possible state is HOST-ONLY
  int ranks = 0, hosts = 0;
  std::size_t families = 0, judged_families = 0;  // measured or named by the profile; of these, judged by its rules
  std::optional<std::string> family;              // the only one that was judged
  std::vector<std::string> run_ids;
  std::string started;  // of the first of its files, UTC, ISO 8601; empty: unknown
  std::vector<std::string> devices;
  std::vector<Finding> findings;
  std::vector<Diagnosis> culprits;  // the worst first; those that fail nothing last
  std::vector<Spoken> spoken;
  std::vector<Node> nodes;
  std::vector<Unjudged> unjudged;
  FleetLines fleet;
  std::vector<ScalingPoint> scaling;  // of what was also measured with other numbers of nodes or ranks
  std::vector<std::string> notes;     // what the reader must know about how this was judged
};

/// Counts the findings, and sets state and exit code by them.
void conclude(Verdict&);

/// "VERDICT: PASS 58/58 (profile h200-sxm, 4 ranks)"; hosts only if more than one, families only if not all were
/// judged: "VERDICT: NO REFERENCE 257/259 (profile h200-sxm, 16 ranks, 2 hosts, 7 of 9 families judged)"
std::string verdict_line(const Verdict&);

}  // namespace shakedown
