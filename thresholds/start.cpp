#include "thresholds/start.hpp"

#include <algorithm>
#include <map>

#include "base/host_list.hpp"
#include "base/text.hpp"
#include "thresholds/expectation.hpp"

namespace shakedown {

std::vector<Finding> judge_start(const std::vector<Results>& files) {
  std::map<std::string, std::string> reasons;  // by host
  int attempts = 1;
  for (const Results& file : files) {
    for (const auto& [host, reason] : file.context.absent) reasons.emplace(host, reason);
    attempts = std::max(attempts, file.context.start_attempts);
  }
  std::vector<Finding> findings;
  for (const auto& [host, reason] : reasons) {
    auto& finding = findings.emplace_back();
    finding.key = "machine/absent/host:" + host;
    set(finding, Status::missing, reason, on_host(host, "true") + "; then measure it alone");
    name_offenders(finding, {host_culprit(host)});
  }
  if (attempts > 1) {
    auto& finding = findings.emplace_back();
    finding.key = "machine/start_attempts";
    finding.severity = Severity::warn;
    set(finding, Status::fail, "ranks died in their start, and were measured by launch " + std::to_string(attempts),
        "the log of the run has the launcher's words");
    finding.value = attempts;
    finding.limit = {LimitKind::max, 1};
    finding.unit = "launches";
  }
  return findings;
}

bool is_of_absent(const Finding& finding, const std::vector<AbsentHost>& absent) {
  return finding.offender_count > 0 && finding.offender_count <= absent.size() &&
         std::all_of(finding.offenders.begin(), finding.offenders.end(), [&](const Culprit& offender) {
           return std::any_of(absent.begin(), absent.end(),
                              [&](const AbsentHost& one) { return same_host(one.host, offender.host); });
         });
}

}  // namespace shakedown
