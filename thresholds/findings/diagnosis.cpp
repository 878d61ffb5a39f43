#include "thresholds/findings/diagnosis.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace shakedown {

void add_evidence(Diagnosis& d, std::vector<Evidence> evidence) {
  const auto strength = [](const Evidence& e) { return e.percent.value_or(0); };
  std::stable_sort(evidence.begin(), evidence.end(),
                   [&](const Evidence& a, const Evidence& b) { return strength(a) > strength(b); });
  d.evidence_count = evidence.size();
  d.keys.clear();
  for (const Evidence& e : evidence) d.keys.push_back(e.key);
  if (!evidence.empty()) {
    d.percent = evidence.front().percent;
    for (const Evidence& e : evidence) {
      if (e.mads && (!d.mads || *e.mads > *d.mads)) d.mads = e.mads;
    }
  }
  if (evidence.size() > max_evidence) evidence.resize(max_evidence);
  d.evidence = std::move(evidence);
}

std::vector<Finding> findings_of(const std::vector<Diagnosis>& suspects) {
  std::vector<Finding> findings;
  for (const Diagnosis& d : suspects) {
    if (!d.fails || !d.evidence.empty() || d.causes.front() != Cause::power_or_heat) continue;
    Finding f;
    classify(f, Code::clock);
    f.key = Key("gemm");
    f.metric = "sm_mhz_vs_peers";
    f.judgement = Judgement::peers;
    f.status = Status::fail;
    f.offenders = d.places;
    f.offender_count = d.place_count;
    f.worst = d.places.front();
    f.part = part_of(*f.worst);
    f.detail = d.detail + "; " + d.telemetry;
    f.source = "the clocks and throttle reasons of all ranks in this run";
    f.next = d.next;
    findings.push_back(std::move(f));
  }
  return findings;
}

std::string causes_text(const Diagnosis& diagnosis) {
  std::vector<std::string> words;
  for (const Cause cause : diagnosis.causes) words.emplace_back(name(cause));
  return joined(words, ", ", " or ");
}

}  // namespace shakedown
