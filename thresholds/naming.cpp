// Decides the words that programs and people match on: names of states, the verdict line, the command to run next.
#include <algorithm>

#include "thresholds/verdict.hpp"

namespace shakedown {

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
