// Decides the words that programs and people match on: names of states, the verdict line, the command to run next.
#include <algorithm>

#include "thresholds/verdict.hpp"

namespace shakedown {

std::string_view name(Status status) {
  switch (status) {
    case Status::pass: return "pass";
    case Status::fail: return "fail";
    case Status::missing: return "missing";
    case Status::waived: return "waived";
    case Status::invalid: return "invalid";
    case Status::inconclusive: return "inconclusive";
    case Status::no_reference: return "no reference";
  }
  return "?";
}

std::string_view name(State state) {
  switch (state) {
    case State::pass: return "PASS";
    case State::fail: return "FAIL";
    case State::inconclusive: return "INCONCLUSIVE";
    case State::no_reference: return "NO REFERENCE";
    case State::incomplete: return "INCOMPLETE";
    case State::host_only: return "HOST-ONLY";
  }
  return "?";
}

std::string_view name(Judgement judgement) {
  switch (judgement) {
    case Judgement::rule: return "rule";
    case Judgement::baseline: return "baseline";
    case Judgement::peers: return "peers";
    case Judgement::crosscheck: return "crosscheck";
  }
  return "?";
}

std::string_view name(Cause cause) {
  switch (cause) {
    case Cause::slow_gpu: return "slow GPU";
    case Cause::slow_link: return "slow link";
    case Cause::slow_node: return "slow node";
    case Cause::late_rank: return "late rank";
    case Cause::wrong_data: return "wrong data";
    case Cause::configuration: return "configuration";
    case Cause::power_or_heat: return "power or heat";
    case Cause::slow_silicon: return "slow silicon";
  }
  return "?";
}

std::string text(const Culprit& culprit) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() || word.empty() ? "" : " ") + word; };
  if (culprit.rank) add("rank " + std::to_string(*culprit.rank));
  add(culprit.host);
  add(culprit.uuid.value_or(""));
  add(culprit.pci.value_or(""));
  return words;
}

std::string verdict_line(const Verdict& verdict) {
  std::string line = "VERDICT: " + std::string(name(verdict.state)) + " " + std::to_string(verdict.passed) + "/" +
                     std::to_string(verdict.total) + " (profile " + verdict.profile + ", " +
                     std::to_string(verdict.ranks) + (verdict.ranks == 1 ? " rank" : " ranks");
  if (verdict.hosts > 1) line += ", " + std::to_string(verdict.hosts) + " hosts";
  if (verdict.judged_families < verdict.families) {
    line +=
        ", " + std::to_string(verdict.judged_families) + " of " + std::to_string(verdict.families) + " families judged";
  }
  return line + ")";
}

std::string measure_command(std::string_view key, int ranks) {
  const std::string family = family_of(key);
  const std::string launcher = ranks > 1 ? "mpirun -np " + std::to_string(ranks) + " " : "";
  const std::string bench = launcher + "build/bench/bench_" + family;
  return family == key ? bench : bench + " --benchmark_filter='^" + std::string(key) + "(/|$)'";
}

}  // namespace shakedown
