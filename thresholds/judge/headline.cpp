#include "thresholds/judge/headline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/findings/order.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_places = 3;

std::string where_text(const std::vector<Culprit>& places, std::size_t count, bool is_link) {
  std::string text;
  const std::size_t shown = std::min(places.size(), max_places);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == shown && shown == count;
    text += (i == 0 ? "" : is_link ? " to " : is_last ? " and " : ", ") + place_text(places[i]);
  }
  return count > shown && shown > 0 ? text + " and " + std::to_string(count - shown) + " more" : text;
}

// Returns "600 TFLOPS, must be at least 620".
std::string compared_text(const Finding& finding) {
  const std::string unit = finding.unit.empty() ? "" : " " + finding.unit;
  std::string text = finding.value ? number_text(*finding.value) + unit : "";
  if (!finding.limit) return text;
  const std::string limit = number_text(finding.limit->value);
  if (!text.empty()) text += ", ";
  switch (finding.limit->kind) {
    case LimitKind::min: return text + "must be at least " + limit;
    case LimitKind::least: return text + "cannot be below " + limit;
    case LimitKind::max: return text + "must be at most " + limit;
    case LimitKind::ceiling: return text + "cannot be above " + limit;
    case LimitKind::equals: return text + "must be " + limit;
    case LimitKind::spread_max: return text + "ranks may differ by " + percent_text(finding.limit->value);
    case LimitKind::cv_max: return text + "may scatter by " + percent_text(finding.limit->value);
    case LimitKind::samples_min: return text + "needs at least " + limit + " samples";
  }
  return text;
}

// Returns the subject of a finding. A fact of pre-flight has a name. A finding about the machine has its whole text in
// the detail.
std::string subject(const Finding& finding) {
  if (finding.key.family() == "machine" && !finding.detail.empty()) return "";
  const std::string family = finding.key.family();
  if (family == "preflight" && !finding.metric.empty()) return finding.metric;
  return named_text(finding.key, finding.metric);
}

bool is_link(const Diagnosis& d) {
  return d.places.size() == 2 && !d.causes.empty() && d.causes.front() == Cause::slow_link;
}

bool is_of_wrong_data(const Diagnosis& d) { return !d.causes.empty() && d.causes.front() == Cause::wrong_data; }

bool is_bad(const Finding& finding) { return !finding.good() && finding.counts(); }

// True for errors of hardware or driver, and for missing parts, because these explain slow values.
bool is_event(const Finding& finding) {
  constexpr std::array codes{Code::driver_answers, Code::crashed, Code::errors,        Code::fact,
                             Code::absent,         Code::gpus,    Code::unique_devices};
  return is_bad(finding) && finding.status != Status::inconclusive && finding.status != Status::no_reference &&
         std::find(codes.begin(), codes.end(), finding.code) != codes.end();
}

// Returns the scope of a good verdict, such as "gemm, hbm judged by h200-sxm on 4 ranks".
std::string judged_text(const Verdict& verdict) {
  std::vector<std::string> families;
  for (const Finding& finding : verdict.findings) {
    const std::string& family = finding.key.family();
    const bool counted = finding.status == Status::pass && finding.counts() && family != "machine";
    if (counted && std::find(families.begin(), families.end(), family) == families.end()) families.push_back(family);
  }
  return (families.empty() ? "nothing except the machine" : joined(families)) + " judged by " + verdict.profile +
         " on " + plural(verdict.ranks, "rank") + (verdict.hosts > 1 ? " of " + plural(verdict.hosts, "host") : "") +
         (verdict.is_partial() ? ", " + asked_text(verdict) : "");
}

const Finding* worst_bad(const Verdict& verdict) {
  for (const Status status :
       {Status::fail, Status::invalid, Status::missing, Status::no_reference, Status::inconclusive}) {
    std::vector<const Finding*> bad;
    for (const Finding& finding : verdict.findings) {
      if (finding.status == status && finding.counts()) bad.push_back(&finding);
    }
    sort_worst_first(bad);
    if (!bad.empty()) return bad.front();
  }
  return nullptr;
}

}  // namespace

std::string place_text(const Culprit& place, Identifiers which) {
  const bool is_gpu = place.local_rank && (place.uuid || place.pci), all = which == Identifiers::all;
  const std::string gpu = place.host + (is_gpu ? " GPU " + std::to_string(*place.local_rank) : "");
  std::vector<std::string> ids;
  if (place.rank) ids.push_back("rank " + std::to_string(*place.rank));
  if (all) ids.push_back(gpu);
  if (place.uuid && (all || !place.serial)) ids.push_back(*place.uuid);
  if (place.serial) ids.push_back("serial " + *place.serial);
  if (place.pci) ids.push_back(*place.pci);
  return all ? joined(ids) : gpu + (ids.empty() ? "" : " (" + joined(ids) + ")");
}

FaultSummary summary_of(const Diagnosis& d) {
  FaultSummary fault;
  fault.where = where_text(d.places, d.place_count, is_link(d));
  fault.what = causes_text(d);
  if (d.percent) fault.what += ", " + fmt::format("{:.1f}", *d.percent) + " % off";
  if (d.percent && d.evidence_count > 1) fault.what += " in " + plural(d.evidence_count, "measurement");
  if (!d.detail.empty()) fault.what += ": " + d.detail;
  fault.next = d.next;
  return fault;
}

FaultSummary summary_of(const Finding& finding) {
  FaultSummary fault;
  const auto& named = finding.offenders;
  fault.where = !named.empty()  ? where_text(named, finding.offender_count, false)
                : finding.worst ? place_text(*finding.worst)
                                : "";
  fault.what = subject(finding);
  if (finding.remedy) fault.what = finding.remedy->means + ": " + fault.what;
  if (!fault.what.empty()) {
    const bool is_unmeasured = !finding.value && !finding.detail.empty();  // then a limit explains nothing
    const auto compared = is_unmeasured ? "" : compared_text(finding);
    if (finding.status != Status::fail) fault.what += " is " + std::string(name(finding.status));
    const char* const verb = finding.status != Status::fail ? ", " : finding.value ? " is " : " ";
    if (!compared.empty()) fault.what += verb + compared;
    if (!finding.detail.empty()) fault.what += ": ";
  }
  fault.what += finding.detail;
  fault.next = finding.next;
  return fault;
}

std::string text(const FaultSummary& fault) { return fault.where + (fault.where.empty() ? "" : ": ") + fault.what; }

Headline headline_of(const Verdict& verdict) {
  Headline headline{verdict.state, {}, 0};
  const auto culprit =
      std::find_if(verdict.culprits.begin(), verdict.culprits.end(), [](const Diagnosis& d) { return d.fails; });
  // A fact that fails explains what is missing.
  auto event = std::find_if(verdict.findings.begin(), verdict.findings.end(),
                            [](const Finding& f) { return is_event(f) && f.status == Status::fail; });
  if (event == verdict.findings.end()) event = std::find_if(verdict.findings.begin(), event, is_event);
  const bool has_culprit = culprit != verdict.culprits.end(), has_event = event != verdict.findings.end();
  const auto faults = static_cast<std::size_t>(
      std::count_if(verdict.culprits.begin(), verdict.culprits.end(), [](const Diagnosis& d) { return d.fails; }) +
      std::count_if(verdict.findings.begin(), verdict.findings.end(), is_event));
  if (has_culprit && (!has_event || is_of_wrong_data(*culprit))) {
    headline.fault = summary_of(*culprit);
    headline.more = faults - 1;
  } else if (has_event) {
    headline.fault = summary_of(*event);
    headline.more = faults - 1;
  } else if (const Finding* const finding = worst_bad(verdict)) {
    headline.fault = summary_of(*finding);
    headline.more =
        static_cast<std::size_t>(std::count_if(verdict.findings.begin(), verdict.findings.end(), is_bad)) - 1;
    if (verdict.state == State::virtual_run) headline.more = 0;  // a limit that is missing is no fault of a GPU
  } else if (is_good(verdict.state)) {
    headline.fault.what = judged_text(verdict);
  } else if (!verdict.notes.empty()) {
    headline.fault.what = verdict.notes.front();
  }
  return headline;
}

std::string text(const Headline& headline) {
  const std::string fault = text(headline.fault);
  return one_line(std::string(name(headline.state)) + (fault.empty() ? "" : " " + fault) +
                  (headline.more > 0 ? "; " + plural(headline.more, "more fault") : ""));
}

std::string text_and_next(const Headline& headline) {
  return text(headline) + (headline.fault.next.empty() ? "" : one_line(". Next: " + headline.fault.next));
}

}  // namespace shakedown
