#include "thresholds/rules/start.hpp"

#include <algorithm>
#include <map>

#include "base/host_list.hpp"
#include "base/text.hpp"
#include "thresholds/rules/expectation.hpp"

namespace shakedown {

Finding finding_of(const AbsentHost& absent) {
  Finding finding;
  const bool hangs = absent.driver_hangs.value_or(false);
  classify(finding, hangs ? Code::driver_answers : Code::absent);
  finding.key = machine_key(finding.code).set("host", absent.host);
  finding.part = host_part(absent.host);
  if (hangs) {
    set(finding, Status::fail, absent.reason,
        on_host(absent.host, "dmesg | grep -e NVRM -e Xid -e 'blocked for more'") + "; then restart the host");
  } else if (absent.lost_bytes) {
    set(finding, Status::missing, absent.reason,
        on_host(absent.host, "ip -br link") + "; compare the MTU with this host's, and with that of the switch ports");
  } else {
    set(finding, Status::missing, absent.reason, on_host(absent.host, "true") + "; then measure it alone");
  }
  name_offenders(finding, {host_culprit(absent.host)});
  return finding;
}

std::vector<Finding> judge_start(const std::vector<Results>& files) {
  std::map<std::string, AbsentHost> hosts;
  int attempts = 1;
  for (const Results& file : files) {
    for (const auto& absent : file.context.absent) hosts.emplace(absent.host, absent);
    attempts = std::max(attempts, file.context.start_attempts);
  }
  std::vector<Finding> findings;
  for (const auto& [host, absent] : hosts) findings.push_back(finding_of(absent));
  if (attempts > 1) {
    auto& finding = findings.emplace_back();
    classify(finding, Code::start_attempts);
    finding.key = machine_key(Code::start_attempts);
    finding.severity = Severity::warn;
    set(finding, Status::fail, "ranks crashed during startup, and were measured by launch " + std::to_string(attempts),
        "the log of the run has the launcher's messages");
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
