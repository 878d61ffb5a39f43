// A CI summary in which bad findings are first and good findings are folded.
#include "report/markdown.hpp"

#include "base/text.hpp"
#include "report/escape.hpp"
#include "report/family_figures.hpp"
#include "report/markdown_table.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

// The maximum numbers of table rows. A row has about 300 bytes.
constexpr std::size_t max_bad_rows = 200, max_good_rows = 1000;

std::string table(const std::vector<const Finding*>& findings, std::size_t most) {
  if (findings.empty()) return "";
  const std::size_t shown = std::min(findings.size(), most);
  std::string rows = markdown_head({"finding", "worst value", "limit", "where", "status", "detail"});
  for (std::size_t i = 0; i < shown; ++i) {
    const Finding& finding = *findings[i];
    rows += markdown_row({named_text(finding.key, finding.metric), value_text(finding), limit_text(finding),
                          worst_text(finding), status_text(finding), finding.detail});
  }
  return rows + markdown_rest(findings.size(), shown);
}

std::string good_table(const Verdict& verdict) {
  std::vector<const Finding*> good;
  for (const Finding& finding : verdict.findings) {
    if (finding.good()) good.push_back(&finding);
  }
  return table(good, max_good_rows);
}

std::string figures(const Verdict& verdict) {
  std::string rows;
  for (const auto& [finding, margin] : family_figures(verdict)) {
    rows += markdown_row({readable(finding->key), value_text(*finding), worst_text(*finding), limit_text(*finding),
                          percent_text(margin), usual_text(*finding)});
  }
  return rows.empty() ? ""
                      : "\n" + markdown_head({"figure", "worst value", "where", "limit", "margin", "normal"}) + rows;
}

std::string unjudged(const Verdict& verdict) {
  std::string rows;
  std::size_t all = 0;
  for (const Unjudged& point : verdict.unjudged) {
    if (++all > max_good_rows) continue;
    rows += markdown_row({joined_words(point.key, point.metric),
                          point.value ? quantity_text(*point.value, unit_of(point.metric)) : point.detail});
  }
  return all == 0 ? ""
                  : markdown_head({"measured, judged by no rule", "value"}) + rows +
                        markdown_rest(all, std::min(all, max_good_rows));
}

std::string step_times(const Verdict& verdict) {
  std::string rows;
  for (const auto& [step, part, ms, share] : step_time_rows(verdict)) rows += markdown_row({step, part, ms, share});
  return rows.empty() ? "" : "\n" + markdown_head({"profiled step", "time of", "ms", "share"}) + rows;
}

std::string details(const std::string& title, const std::string& body) {
  return body.empty() ? "" : "\n<details><summary>" + title + "</summary>\n\n" + body + "\n</details>\n";
}

// Returns the bad findings that culprits explain.
std::string explained_table(const Verdict& verdict) {
  auto bad = bad_findings(verdict);
  std::erase_if(bad, [](const Finding* finding) { return !finding->culprit; });
  return table(bad, max_bad_rows);
}

// Returns the causes that the headline does not name.
std::string causes(const Verdict& verdict) {
  std::string out;
  std::size_t all = 0;
  for (const Diagnosis& d : verdict.culprits) {
    if (!d.fails || ++all > max_offenders) continue;
    const FaultSummary fault = summary_of(d);
    out += "- " + markdown_escaped(text(fault)) + (fault.next.empty() ? "" : " Next: " + markdown_escaped(fault.next)) +
           "\n";
  }
  return all < 2 ? "" : "\nCauses:\n\n" + out + markdown_rest(all, std::min(all, max_offenders));
}

std::string next_steps(const Verdict& verdict) {
  std::string out;
  std::size_t all = 0;
  for (const Finding* finding : unexplained_findings(verdict)) {
    if (finding->next.empty() || ++all > max_offenders) continue;
    out += "- " + markdown_escaped(joined_words(finding->key, finding->metric)) + ": " +
           markdown_escaped(finding->next) + "\n";
  }
  return out.empty() ? "" : "\nNext:\n\n" + out + markdown_rest(all, std::min(all, max_offenders));
}

}  // namespace

std::string markdown_text(const Verdict& verdict) {
  const Headline headline = headline_of(verdict);
  std::string out = "## " + markdown_escaped(text(headline)) + "\n";
  if (!headline.fault.next.empty()) out += "\nNext: " + markdown_escaped(headline.fault.next) + "\n";
  out += "\n" + markdown_escaped(verdict_line(verdict)) + "\n" + causes(verdict);
  const std::string bad = table(unexplained_findings(verdict), max_bad_rows);
  if (!bad.empty()) out += "\n" + bad + next_steps(verdict);
  if (is_good(verdict.state)) out += figures(verdict);
  out += step_times(verdict);
  for (const std::string& note : verdict.notes) out += "\nNote: " + markdown_escaped(note) + "\n";
  return out + details("Findings that the causes explain", explained_table(verdict)) +
         details("Good findings", good_table(verdict)) + details(unjudged_text(verdict), unjudged(verdict));
}

std::string markdown_text(const Regression& regression) {
  std::string out = "## " + markdown_escaped(regression_line(regression)) + "\n";
  const auto rows = [&](bool quiet) {
    std::string text;
    std::size_t all = 0;
    for (const Change& change : regression.changes) {
      if (is_quiet(change) != quiet || ++all > max_good_rows) continue;
      text += markdown_row({joined_words(change.key, change.metric), value_text(change.before, change.metric),
                            value_text(change.after, change.metric), change_text(change), count_text(change),
                            std::string(name(change.trend)), change.detail});
    }
    if (all == 0) return std::string();
    return markdown_head({"benchmark", "baseline", "now", "change", "launches", "status", "detail"}) + text +
           markdown_rest(all, std::min(all, max_good_rows));
  };
  if (const std::string loud = rows(false); !loud.empty()) out += "\n" + loud;
  for (const std::string& note : regression.notes) out += "\nNote: " + markdown_escaped(note) + "\n";
  return out + details("No change", rows(true));
}

}  // namespace shakedown
