#include "thresholds/findings/attribution.hpp"

namespace shakedown {
namespace {

Finding attributed(Finding finding, const Attribution& attribution) {
  finding.status = attribution.status;
  finding.severity = attribution.severity;
  finding.own = attribution.own;
  if (attribution.value) finding.value = attribution.value;
  if (attribution.offenders) {
    finding.worst.reset();
    name_offenders(finding, *attribution.offenders);
    finding.part = attribution.part;
  }
  if (!attribution.reason.empty()) finding.detail += (finding.detail.empty() ? "" : "; ") + attribution.reason;
  return finding;
}

}  // namespace

std::vector<Finding> attributed(std::vector<Finding> findings, const std::vector<Attribution>& attributions) {
  for (const Attribution& attribution : attributions) {
    Finding& place = findings.at(attribution.finding);
    place = attributed(std::move(place), attribution);
  }
  return findings;
}

}  // namespace shakedown
