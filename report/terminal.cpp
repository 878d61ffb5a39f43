#include "report/terminal.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "base/statistics.hpp"
#include "report/culprits.hpp"
#include "report/family_figures.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/results/matrix.hpp"

namespace shakedown {
namespace {

using Cell = Table::Cell;
using Tone = Table::Tone;

// Marks a finding that only warns. Such a finding changes neither the number of failures nor the exit code.
Cell status_cell(const Finding& finding) {
  if (finding.good()) return {status_text(finding), Tone::good};
  const bool doubtful = finding.status == Status::inconclusive || finding.status == Status::no_reference;
  return {status_text(finding), doubtful || !finding.counts() ? Tone::doubtful : Tone::bad};
}

std::string findings_table(const std::vector<const Finding*>& findings, TerminalStyle style) {
  Table table({{"finding"}, {"worst value"}, {"where"}, {"limit"}, {"status"}});
  for (const Finding* finding : findings) {
    table.add({{style.all ? joined_words(finding->key, finding->metric) : named_text(finding->key, finding->metric)},
               {value_text(*finding)},
               {worst_text(*finding)},
               {limit_text(*finding)},
               status_cell(*finding)});
  }
  return table.text(style.table());
}

// Returns the bad findings that no culprit explains: a few of each part of the fleet, up to a maximum number of rows.
constexpr std::size_t max_rows_of_part = 3, max_rows_shown = 12;

std::vector<const Finding*> shown_findings(const Verdict& verdict, std::size_t max_rows) {
  std::map<std::tuple<PartKind, std::string, bool>, std::size_t> rows_of_part;
  std::vector<const Finding*> shown;
  for (const Finding* finding : unexplained_findings(verdict)) {
    const auto rows = ++rows_of_part[{finding->part.kind, finding->part.id, finding->counts()}];
    if (rows <= max_rows_of_part && shown.size() < max_rows) shown.push_back(finding);
  }
  return shown;
}

std::string more_text(std::size_t more, const std::string& noun) {
  if (more == 0) return "";
  return plural(more, noun) + (more == 1 ? " is" : " are") + " not good: --all lists " + (more == 1 ? "it" : "them") +
         "\n";
}

std::string bad_table(const Verdict& verdict, TerminalStyle style) {
  const auto shown = shown_findings(verdict, max_rows_shown);
  return (shown.empty() ? "" : findings_table(shown, style)) +
         more_text(unexplained_findings(verdict).size() - shown.size(), "more finding");
}

// True for a finding whose row in a table says all that is known of it.
bool is_told_by_row(const Finding& finding) { return !finding.counts() && finding.value && finding.detail.empty(); }

// Prints the warnings of a good run, each in one line.
constexpr std::size_t max_warnings_shown = 4;

std::string warnings(const Verdict& verdict) {
  std::string out;
  const auto shown = shown_findings(verdict, max_warnings_shown);
  for (const Finding* finding : shown) {
    std::string line = status_text(*finding) + ": " + named_text(finding->key, finding->metric);
    if (finding->value) line += ": " + value_text(*finding);
    if (finding->limit) line += ", limit " + limit_text(*finding);
    if (finding->worst) line += ", " + worst_text(*finding);
    if (!finding->detail.empty()) line += ": " + finding->detail;
    if (!is_told_by_row(*finding) && !finding->next.empty()) line += "; next: " + finding->next;
    out += one_line(line) + "\n";
  }
  return out + more_text(unexplained_findings(verdict).size() - shown.size(), "more value");
}

// Returns "vm GPU 1", or "vm rank 1" without a GPU, because the table of figures must fit in one screen.
std::string short_place_text(const Finding& finding) {
  if (!finding.worst) return "-";
  const Culprit& place = *finding.worst;
  const bool is_gpu = place.local_rank && (place.uuid || place.pci);
  std::string text = place.host;
  if (is_gpu) text += " GPU " + std::to_string(*place.local_rank);
  if (!is_gpu && place.rank) text += " rank " + std::to_string(*place.rank);
  return finding.offender_count > 1 ? text + " +" + std::to_string(finding.offender_count - 1) : text;
}

// Prints the figure of each family, its margin, and the range of stored runs on such GPUs. A narrow terminal gets the
// family instead of the name of the figure, and no limits, so that each family has one line.
constexpr std::size_t min_width_of_names = 100;

std::string figures(const Verdict& verdict, TerminalStyle style) {
  const bool is_narrow = style.width < min_width_of_names;
  const auto figures = family_figures(verdict);
  if (figures.empty()) return "";
  const bool has_seen =
      std::any_of(figures.begin(), figures.end(), [](const FamilyFigure& f) { return f.finding->seen.has_value(); });
  std::vector<Cell> head{{is_narrow ? "family" : "figure"}, {"worst value"}, {"where"}};
  if (!is_narrow) head.push_back({"limit"});
  head.push_back({"margin"});
  if (has_seen) head.push_back({"normal: stored runs"});
  Table table(head);
  for (const auto& [finding, margin] : figures) {
    std::vector<Cell> row{{is_narrow ? finding->key.family() : readable(finding->key)},
                          {value_text(*finding)},
                          {short_place_text(*finding)}};
    if (!is_narrow) row.push_back({limit_text(*finding)});
    row.push_back({percent_text(margin)});
    if (has_seen) row.push_back({finding->seen ? usual_text(*finding) : "-"});
    table.add(std::move(row));
  }
  const std::string closest = closest_text(verdict);
  return table.text(style.table()) + (closest.empty() ? "" : closest + "\n");
}

std::string findings(const Verdict& verdict, TerminalStyle style) {
  if (!style.all) return bad_table(verdict, style);
  std::vector<const Finding*> all;
  for (const Finding& finding : verdict.findings) all.push_back(&finding);
  return findings_table(all, style);
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string out = indent;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += indent;
  }
  return out + "\n";
}

std::string waivers(const Verdict& verdict) {
  std::string out;
  for (const std::string& waiver : waivers_text(verdict)) out += one_line("waived: " + waiver) + "\n";
  return out;
}

// Prints only some findings in full. The table and verdict.json have the others.
constexpr std::size_t max_reasons = 5, max_reasons_of_all = 25;

// Returns a line with the culprit that explains the finding.
std::string explanation(const Verdict& verdict, const Finding& finding) {
  if (!finding.culprit) return "";
  const Diagnosis& d = verdict.culprits.at(*finding.culprit);
  const std::string where = summary_of(d).where;
  return "\n  explained by: " + causes_text(d) + (where.empty() ? "" : " at " + where);
}

std::string reasons(const Verdict& verdict, TerminalStyle style) {
  std::string out;
  std::size_t given = 0;
  const std::size_t most = style.all ? max_reasons_of_all : max_reasons;
  // Each fact of pre-flight has a reason of its own.
  std::set<std::tuple<PartKind, std::string, Code, std::string>> seen;
  for (const Finding* finding : style.all ? bad_findings(verdict) : unexplained_findings(verdict)) {
    if (!style.all && is_told_by_row(*finding)) continue;
    const std::string fact = finding->key.family() == "preflight" ? finding->metric : "";
    if (!style.all && !seen.emplace(finding->part.kind, finding->part.id, finding->code, fact).second) continue;
    if (++given <= most) out += "\n" + finding_text(*finding) + explanation(verdict, *finding) + "\n";
  }
  if (given > most) out += "\nand " + std::to_string(given - most) + " more: --all lists them\n";
  std::string remarks;
  for (const Finding& finding : verdict.findings) {
    if (style.all && is_long_remark(finding))
      remarks += one_line("pass: " + finding.key.text() + ": " + finding.detail) + "\n";
  }
  remarks += waivers(verdict);
  return out + (remarks.empty() ? "" : "\n" + remarks);
}

std::string unjudged(const Verdict& verdict, TerminalStyle style) {
  if (verdict.unjudged.empty()) return "";
  // Without a profile, these values are always listed, because there are no others to show.
  if (!style.all && verdict.profile != Verdict{}.profile) return unjudged_text(verdict) + ": --all lists them\n";
  Table table({{"measured, judged by no rule"}, {"value"}});
  for (const Unjudged& point : verdict.unjudged) {
    table.add({{joined_words(point.key, point.metric)},
               {point.value ? quantity_text(*point.value, unit_of(point.metric)) : point.detail}});
  }
  return table.text(style.table());
}

// Prints how far the fleet is from its references, and its outliers. With --all it prints every part of the fleet.
constexpr std::size_t max_outliers_shown = 3;

std::string fleet(const Verdict& verdict, TerminalStyle style) {
  const FleetLines& lines = verdict.fleet;
  std::string out;
  if (style.all || !is_good(verdict.state)) {  // a good run has a table with the margin of each family
    for (const std::string& levels : levels_text(verdict)) out += "fleet: " + levels + "\n";
  }
  const auto off = standing_off_text(verdict);
  for (std::size_t i = 0; i < off.size() && (style.all || i < max_outliers_shown); ++i)
    out += "fleet: " + off[i] + "\n";
  if (!style.all && off.size() > max_outliers_shown) {
    const auto more = off.size() - max_outliers_shown;
    out += "fleet: " + std::to_string(more) + (more == 1 ? " more outlier" : " more outliers") + ": --all lists them\n";
  }
  if (!out.empty()) out = printable(out) + "\n";
  if (!style.all) return out;
  Table levels({{"class"}, {"rows"}, {"usual"}, {"against"}});
  for (const FleetLevel& level : lines.levels) {
    levels.add({{joined_words(level.name, level.metric)},
                {std::to_string(level.rows)},
                {signed_percent(level.better)},
                {level.reference ? "reference" : "limits"}});
  }
  if (!lines.levels.empty()) out += levels.text(style.table()) + "\n";
  if (lines.lines.empty()) return out;
  Table table({{"of the fleet"}, {"class"}, {"GPUs"}, {"median"}, {"1 %"}, {"99 %"}, {"temperature"}, {""}});
  for (const FleetLine& line : lines.lines) {
    table.add({{group_text(line)},
               {line.name},
               {std::to_string(line.gpus)},
               {signed_percent(line.median)},
               {signed_percent(line.p1)},
               {signed_percent(line.p99)},
               {line.temperature_c ? number_text(std::round(*line.temperature_c)) + " C" : "-"},
               {line.slow || line.hot ? "stands off" : "", Tone::doubtful}});
  }
  return out + table.text(style.table()) + "\n";
}

// Prints the scaling efficiency on more nodes or ranks.
std::string scaling(const Verdict& verdict, TerminalStyle style) {
  if (verdict.scaling.empty()) return "";
  Table table({{"scaling"}, {"nodes"}, {"ranks"}, {"value"}, {"efficiency"}, {"limited by"}});
  for (const ScalingPoint& point : verdict.scaling) {
    table.add({{joined_words(point.key, point.metric)},
               {std::to_string(point.hosts)},
               {std::to_string(point.ranks)},
               {quantity_text(point.value, unit_of(point.metric))},
               {efficiency_text(point)},
               {point.limited_by}});
  }
  return table.text(style.table());
}

// Prints the time of profiled steps by class.
std::string step_times(const Verdict& verdict, TerminalStyle style) {
  const auto rows = step_time_rows(verdict);
  if (rows.empty()) return "";
  Table table({{"profiled step"}, {"time of"}, {"ms"}, {"share"}});
  for (const auto& [step, part, ms, share] : rows) table.add_words({step, part, ms, share});
  return table.text(style.table());
}

// Prints each GPU compared with stored GPUs of its model.
std::string compared_gpus(const Verdict& verdict, TerminalStyle style) {
  if (verdict.compared_gpus.empty() || !style.all) return "";
  Table table(
      {{"GPU, against stored GPUs"}, {"GEMM"}, {"work per clock"}, {"chip's clock"}, {"clock by heat"}, {"slower by"}});
  for (const GpuComparison& of : verdict.compared_gpus) {
    table.add({{short_text(of.gpu)},
               {signed_percent(of.tflops)},
               {signed_percent(of.work)},
               {signed_percent(of.chip)},
               {signed_percent(of.heat)},
               {of.cause == SlowerBy::nothing ? "-" : std::string(name(of.cause))}});
  }
  return table.text(style.table());
}

// Returns the text with one empty line between its blocks, and none after the last.
std::string joined_blocks(const std::vector<std::string>& blocks) {
  std::string out;
  for (const std::string& block : blocks) {
    const std::string text = block.substr(0, block.find_last_not_of('\n') + 1);
    if (!text.empty()) out += (out.empty() ? "" : "\n") + text + "\n";
  }
  return out;
}

std::string notes(const Verdict& verdict) {
  std::string out;
  for (const std::string& note : verdict.notes) out += indented(printable(note), "note: ");
  return out;
}

// Colours the state in the headline or in the verdict line.
std::string with_colored_state(const std::string& line, State state, TerminalStyle style) {
  const std::string word(name(state));
  const auto at = line.find(word);
  if (!style.color || at == std::string::npos) return line;
  const char* const color = state == State::fail ? "31" : state == State::pass || state == State::fit ? "32" : "33";
  return line.substr(0, at) + "\033[" + color + "m" + word + "\033[0m" + line.substr(at + word.size());
}

// Prints a good run on one screen of 24 lines: warnings, a figure of each family, and what was not judged.
std::string good_text(const Verdict& verdict, TerminalStyle style) {
  std::string rest = printable(waivers(verdict)) + unjudged(verdict, style) + printable(judgements_text(verdict));
  rest = rest.substr(0, rest.find_last_not_of('\n') + 1) + "\n" + fleet(verdict, style);
  return joined_blocks({culprits_text(verdict, style), printable(warnings(verdict)), figures(verdict, style),
                        scaling(verdict, style), step_times(verdict, style), rest, notes(verdict)});
}

Tone tone_of(Trend trend) {
  if (trend == Trend::worse || trend == Trend::missing) return Tone::bad;
  if (trend == Trend::inconclusive) return Tone::doubtful;
  return trend == Trend::better ? Tone::good : Tone::plain;
}

}  // namespace

std::string matrices_text(const std::vector<Results>& files) {
  std::string shown;
  for (const Results& file : files) {
    for (const auto& matrix : pair_matrices(file.context, file.rows)) shown += text(matrix) + "\n";
  }
  return shown;
}

std::string finding_text(const Finding& finding) {
  std::string out = status_text(finding) + ": " + joined_words(finding.key, finding.metric);
  if (finding.value) out += ", " + value_text(finding);
  if (finding.limit) out += ", limit " + joined_words(limit_text(finding), finding.value ? "" : finding.unit);
  if (!finding.detail.empty()) out += "\n  " + finding.detail;
  const std::size_t shown = std::min(finding.offenders.size(), max_offenders);
  for (const Culprit& offender : std::span(finding.offenders).first(shown)) {
    out += "\n  " + text(offender) + (offender.value ? ": " + number_text(*offender.value) : "");
  }
  if (finding.offender_count > shown) out += "\n  and " + std::to_string(finding.offender_count - shown) + " more";
  if (finding.offenders.empty() && finding.worst) out += "\n  " + text(*finding.worst);
  if (!finding.rule_at.empty()) out += "\n  rule: " + finding.rule_at;
  if (finding.judgement != Judgement::rule) out += "\n  judged by: " + std::string(name(finding.judgement));
  if (!finding.source.empty()) out += "\n  source: " + finding.source;
  if (!finding.next.empty()) out += "\n  next: " + finding.next;
  return out;
}

std::string terminal_text(const Verdict& verdict, TerminalStyle style) {
  const State state = verdict.state;
  const std::string headline = with_colored_state(text_and_next(headline_of(verdict)), state, style) + "\n";
  const std::string last =
      (is_good(state) ? "" : headline) + with_colored_state(verdict_line(verdict), state, style) + "\n";
  if (is_good(state) && !style.all) return headline + "\n" + good_text(verdict, style) + last;
  const auto block = [](const std::string& text) { return text.empty() ? "" : "\n" + text; };
  return headline + "\n" + culprits_text(verdict, style) + findings(verdict, style) +
         printable(reasons(verdict, style)) + block(unjudged(verdict, style)) + block(scaling(verdict, style)) +
         block(step_times(verdict, style)) + block(compared_gpus(verdict, style)) + "\n" +
         printable(judgements_text(verdict)) + fleet(verdict, style) + notes(verdict) + last;
}

std::string terminal_text(const Regression& regression, TerminalStyle style) {
  auto shown = worst_changes(regression);
  for (const Change& change : regression.changes) {
    const bool is_bad = change.trend == Trend::worse || change.trend == Trend::missing;
    if (!is_bad && (style.all || !is_quiet(change))) shown.push_back(&change);
  }
  Table table({{"figure"}, {"baseline"}, {"now"}, {"change"}, {"launches"}, {"status"}});
  for (const Change* change : shown) {
    table.add({{style.all ? joined_words(change->key, change->metric) : named_text(change->key, change->metric)},
               {value_text(change->before, change->metric)},
               {value_text(change->after, change->metric)},
               {change_text(*change)},
               {count_text(*change)},
               {trend_text(*change), tone_of(change->trend)}});
  }
  std::string out = regression_line(regression) + "\n\n" + (shown.empty() ? "" : table.text(style.table()));
  if (const std::size_t rest = regression.changes.size() - shown.size(); rest > 0) {
    out += plural(rest, "more figure") + (rest == 1 ? " is" : " are") + " the same, new or not judged: --all lists " +
           (rest == 1 ? "it" : "them") + "\n";
  }
  out += "\n";
  for (const std::string& note : regression.notes) out += indented(printable(note), "note: ");
  return out + regression_line(regression) + "\n";
}

std::string terminal_text(const Baseline& baseline, TerminalStyle style) {
  Table facts({{"machine"}, {""}});
  for (const auto& [field, values] : baseline.facts) {
    facts.add({{field}, {values.empty() ? "unknown" : joined(values)}});
  }
  std::string out = facts.text(style.table()) + "\n";
  Table table({{"benchmark"}, {"median"}, {"spread"}, {"lowest"}, {"highest"}, {"launches"}});
  for (const auto& [key, entry] : baseline.benchmarks) {
    const Series& series = entry.series.at(entry.headline);
    const auto units = series.units(false);
    const auto [low, high] = std::minmax_element(units.begin(), units.end());
    const double centre = median(units);
    const std::string unit = unit_of(entry.headline);
    table.add({{joined_words(key, entry.headline)},
               {quantity_text(centre, unit)},
               {units.size() < 2 || centre == 0 ? "-" : number_text(100 * robust_sigma(units) / centre) + " %"},
               {number_text(*low)},
               {number_text(*high)},
               {std::to_string(series.launches.size())}});
  }
  out += table.text(style.table()) + "\n";
  for (const LeftOut& value : baseline.left_out) {
    out += printable("left out: " + joined_words(value.key, value.metric) + " " + number_text(value.value) + " of " +
                     launch_text(baseline, value.launch) + ", the others have " + number_text(value.centre)) +
           "\n";
  }
  return out + "BASELINE: " + std::to_string(baseline.benchmarks.size()) + " benchmarks, " +
         std::to_string(baseline.launches.size()) + (baseline.launches.size() == 1 ? " launch, " : " launches, ") +
         std::to_string(baseline.left_out.size()) + (baseline.left_out.size() == 1 ? " value" : " values") +
         " left out (" + std::to_string(baseline.ranks) + (baseline.ranks == 1 ? " rank)" : " ranks)") + "\n";
}

}  // namespace shakedown
