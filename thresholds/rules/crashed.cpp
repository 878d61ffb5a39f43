#include "thresholds/rules/crashed.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.hpp"

namespace shakedown {

std::optional<Finding> judge_crashed(const std::vector<Results>& files) {
  std::set<std::string> families, lost;
  int ranks = 0;
  for (const Results& file : files) {
    families.insert(file.context.crashed.begin(), file.context.crashed.end());
    lost.insert(file.context.lost_hosts.begin(), file.context.lost_hosts.end());
    ranks = file.context.world_size;
  }
  if (families.empty()) return std::nullopt;
  Finding finding;
  classify(finding, Code::crashed);
  finding.key = machine_key(Code::crashed);
  finding.status = Status::fail;
  // Each death took a host with it: the others held out.
  if (lost.size() >= families.size()) {
    finding.detail = plural(static_cast<int>(lost.size()), "host") + " lost in " + joined(families) +
                     "; what was then missing was measured without";
    finding.next = "look at these hosts (power, network, dmesg), then measure them alone";
    std::vector<Culprit> offenders(lost.size());
    std::transform(lost.begin(), lost.end(), offenders.begin(), host_culprit);
    name_offenders(finding, std::move(offenders));
    return finding;
  }
  finding.detail =
      "a program that measures died in " + joined(families) +
      "; what is judged of them was measured before that, or by another program afterwards, and proves less than that "
      "this machine holds out";
  finding.next = "mpirun -np " + std::to_string(ranks) + " build/bench/bench_all --families=" + joined(families, ",") +
                 " --out-dir=.";
  return finding;
}

}  // namespace shakedown
