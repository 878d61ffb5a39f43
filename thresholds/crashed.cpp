#include "thresholds/crashed.hpp"

#include <set>

#include "base/text.hpp"

namespace shakedown {

std::optional<Finding> judge_crashed(const std::vector<Results>& files) {
  std::set<std::string> families;
  int ranks = 0;
  for (const Results& file : files) {
    families.insert(file.context.crashed.begin(), file.context.crashed.end());
    ranks = file.context.world_size;
  }
  if (families.empty()) return std::nullopt;
  Finding finding;
  finding.key = "machine/crashed";
  finding.status = Status::fail;
  finding.detail =
      "the program that measures all families died in " + joined(families) +
      "; what is judged of them was measured by another program afterwards, and proves less than that this "
      "machine holds out";
  finding.next = "mpirun -np " + std::to_string(ranks) + " build/bench/bench_all --families=" + joined(families, ",") +
                 " --out-dir=.";
  return finding;
}

}  // namespace shakedown
