#include "thresholds/culprits/consequences.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/culprits/common_cause.hpp"
#include "thresholds/findings/order.hpp"

namespace shakedown {
namespace {

// True for a figure that was measured and is too bad, or in doubt. A comparison with fewer nodes names its own cause.
bool is_bad_figure(const Finding& f) {
  constexpr std::array codes{Code::limit, Code::peers,      Code::in_doubt,       Code::scatter, Code::clock,
                             Code::pairs, Code::crosscheck, Code::reference_gpus, Code::baseline};
  return (f.status == Status::fail || f.status == Status::inconclusive) && f.wrong_ranks.empty() &&
         std::find(codes.begin(), codes.end(), f.code) != codes.end();
}

bool is_single_part(const Diagnosis& d) { return !d.places.empty(); }

bool has_cause(const Diagnosis& d, Cause cause) { return d.causes.front() == cause; }

// Wrong data makes nothing slow.
bool may_explain(const Diagnosis& d, const Finding& f) {
  return (d.fails || !f.counts()) && !has_cause(d, Cause::wrong_data);
}

// True if the finding is about the same kind of figures as the evidence. A low clock has no rows as evidence, and makes
// all work of the SMs slow.
bool is_alike(const Diagnosis& d, const Finding& f) {
  if (!d.keys.empty())
    return std::ranges::any_of(d.keys, [&](const Key& key) { return key.family() == f.key.family(); });
  const Aspect aspect = aspect_of(f.key, f.metric);
  return (has_cause(d, Cause::power_or_heat) || has_cause(d, Cause::slow_silicon)) &&
         (aspect == Aspect::gemm || aspect == Aspect::gemm_raw || aspect == Aspect::memory);
}

// True if the offender is the place, or the host of the offender is. A copy has two ends, and a finding about many
// copies of a host does not name the source of each. If all GPUs copy at once, slow ports also slow down the GPU to
// which they send.
bool is_at(const Culprit& offender, const Culprit& place, const Finding& f) {
  if (offender.host != place.host) return false;
  if (!place.rank || offender.rank == place.rank) return true;
  if (f.key.family() != "p2p") return false;
  const auto source = f.key.number("src");
  return !source || (place.local_rank && *source == *place.local_rank);
}

class Causes {
 public:
  explicit Causes(const std::vector<Diagnosis>& culprits) : culprits_(culprits) {
    for (std::size_t i = 0; i < culprits.size(); ++i) {
      for (const Culprit& place : culprits[i].places) {
        auto& of_host = by_host_[place.host];
        if (of_host.empty() || of_host.back() != i) of_host.push_back(i);
      }
    }
  }

  std::optional<std::size_t> of(const Finding& f) const {
    if (!is_bad_figure(f)) return std::nullopt;
    if (const auto own = of_places(f)) return own;
    for (std::size_t i = 0; i < culprits_.size(); ++i) {
      const Diagnosis& d = culprits_[i];
      if (may_explain(d, f) && (is_single_part(d) ? delays(d, f) : is_evidence(d, f))) return i;
    }
    return std::nullopt;
  }

 private:
  // Returns the culprit of the worst offender if every offender has a culprit.
  std::optional<std::size_t> of_places(const Finding& f) const {
    // A comparison of peers names only its first outliers, but each of them is evidence for a culprit.
    if (f.offender_count > f.offenders.size() && f.judgement != Judgement::peers) return std::nullopt;
    const auto named = f.offenders.empty() && f.worst ? std::vector{*f.worst} : f.offenders;
    std::optional<std::size_t> first;
    for (const Culprit& offender : named) {
      const auto cause = of_place(f, offender);
      if (!cause) return std::nullopt;
      if (!first) first = cause;
    }
    return first;
  }

  std::optional<std::size_t> of_place(const Finding& f, const Culprit& offender) const {
    const auto found = by_host_.find(offender.host);
    if (found == by_host_.end()) return std::nullopt;
    for (const std::size_t i : found->second) {
      const Diagnosis& d = culprits_[i];
      if (!may_explain(d, f) || !is_alike(d, f)) continue;
      if (std::ranges::any_of(d.places, [&](const Culprit& place) { return is_at(offender, place, f); })) return i;
    }
    return std::nullopt;
  }

  static bool delays(const Diagnosis& d, const Finding& f) {
    const auto percent = percent_off(f);
    return percent && (is_shared(f.key, f.metric) || is_training(f.key.family())) && may_delay(d, *percent);
  }

  static bool is_evidence(const Diagnosis& d, const Finding& f) {
    return std::find(d.keys.begin(), d.keys.end(), f.key) != d.keys.end();
  }

  const std::vector<Diagnosis>& culprits_;
  std::map<std::string, std::vector<std::size_t>> by_host_;  // indices of the culprits with a place on the host
};

}  // namespace

std::vector<Finding> with_culprits(std::vector<Finding> findings, const std::vector<Diagnosis>& culprits) {
  const Causes causes(culprits);
  for (Finding& finding : findings) finding.culprit = causes.of(finding);
  return findings;
}

std::vector<Consequences> consequences_of(const std::vector<Diagnosis>& culprits,
                                          const std::vector<Finding>& findings) {
  std::vector<std::vector<const Finding*>> explained(culprits.size());
  for (const Finding& finding : findings) {
    if (finding.culprit) explained.at(*finding.culprit).push_back(&finding);
  }
  std::vector<Consequences> all;
  for (auto& of_culprit : explained) {
    sort_worst_first(of_culprit);
    const auto warnings = std::ranges::count_if(of_culprit, [](const Finding* f) { return !f->counts(); });
    const auto worst = std::ranges::find_if(of_culprit, [](const Finding* f) { return percent_off(*f).has_value(); });
    all.push_back(
        {of_culprit.size(), static_cast<std::size_t>(warnings), worst == of_culprit.end() ? nullptr : *worst});
  }
  return all;
}

}  // namespace shakedown
