// Decides what a reader sees. Column widths follow the content, so that nothing is cut off and a table of short names
// stays narrow. Tested by tests/terminal_test.cpp (build/tests/terminal_test).
#include "report/terminal.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "report/culprits.hpp"

namespace shakedown {
namespace {

enum class Tone { plain, good, bad, doubtful };

struct Cell {
  std::string text;
  Tone tone = Tone::plain;
};

std::string painted(const Cell& cell, TerminalStyle style) {
  if (!style.color || cell.tone == Tone::plain) return cell.text;
  const char* code = cell.tone == Tone::good ? "\033[32m" : cell.tone == Tone::bad ? "\033[31m" : "\033[33m";
  return code + cell.text + "\033[0m";
}

class Table {
 public:
  explicit Table(std::vector<Cell> head) { add(std::move(head)); }

  void add(std::vector<Cell> row) {
    widths_.resize(std::max(widths_.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].text.size());
    rows_.push_back(std::move(row));
  }

  std::string text(TerminalStyle style) const {
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::size_t padding = i + 1 < row.size() ? widths_[i] - row[i].text.size() + 2 : 0;
        line += painted(row[i], style) + std::string(padding, ' ');
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> widths_;
};

std::string joined(const std::string& a, const std::string& b) { return a.empty() || b.empty() ? a + b : a + " " + b; }

// A finding that is only a warning says so: it changes neither count nor exit code.
Cell status_cell(const Finding& finding) {
  const std::string word(name(finding.status));
  if (finding.good()) return {word, Tone::good};
  if (!finding.counts()) return {std::string(name(finding.severity)) + ": " + word, Tone::doubtful};
  const bool doubtful = finding.status == Status::inconclusive || finding.status == Status::no_reference;
  return {word, doubtful ? Tone::doubtful : Tone::bad};
}

// The findings about the machine have no metric; what they saw stands in the place of a value, or below if it is long.
constexpr std::size_t widest_remark = 24;

bool is_remark(const Finding& finding) {
  return finding.status == Status::pass && finding.metric.empty() && !finding.detail.empty();
}

std::string value_text(const Finding& finding) {
  if (finding.value) return joined(number_text(*finding.value), finding.unit);
  if (!is_remark(finding)) return "-";
  return finding.detail.size() <= widest_remark ? finding.detail : "see below";
}

std::string limit_text(const Finding& finding) {
  return finding.limit ? joined(finding.limit_name, number_text(*finding.limit)) : "-";
}

std::string worst_text(const Finding& finding) {
  if (!finding.worst) return "-";
  const std::string where = text(*finding.worst);
  return finding.offender_count > 1 ? where + " +" + std::to_string(finding.offender_count - 1) : where;
}

std::string findings_table(const Verdict& verdict, TerminalStyle style) {
  Table table({{"finding"}, {"worst value"}, {"where"}, {"limit"}, {"status"}});
  for (const Finding& finding : verdict.findings) {
    table.add({{joined(finding.key, finding.metric)},
               {value_text(finding)},
               {worst_text(finding)},
               {limit_text(finding)},
               status_cell(finding)});
  }
  return table.text(style);
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string out = indent;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += indent;
  }
  return out + "\n";
}

// In full; the rest stands in the table above and in verdict.json.
constexpr std::size_t most_reasons = 25;

std::string reasons(const Verdict& verdict) {
  std::string out;
  std::size_t given = 0;
  for (const Finding& finding : verdict.findings) {
    if (!finding.good() && ++given > most_reasons) continue;
    if (!finding.good()) out.append("\n").append(finding_text(finding)).append("\n");
    const bool long_remark = is_remark(finding) && !finding.value && finding.detail.size() > widest_remark;
    if (long_remark || finding.status == Status::waived) {
      out.append("\n")
          .append(name(finding.status))
          .append(": ")
          .append(finding.key)
          .append("\n  ")
          .append(finding.detail);
      out.append("\n");
    }
  }
  if (given > most_reasons) out += "\nand " + std::to_string(given - most_reasons) + " more: see the table\n";
  return out;
}

std::string unjudged(const Verdict& verdict) {
  if (verdict.unjudged.empty()) return "";
  Table table({{"measured, judged by no rule"}, {"value"}});
  for (const Unjudged& point : verdict.unjudged) {
    table.add({{joined(point.key, point.metric)},
               {point.value ? joined(number_text(*point.value), unit_of(point.metric)) : point.detail}});
  }
  return std::string("\n").append(table.text({}));
}

std::string percent_text(const std::optional<double>& percent) {
  if (!percent) return "-";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.1f %%", *percent);
  return text.data();
}

Tone tone_of(Trend trend) {
  if (trend == Trend::worse || trend == Trend::missing) return Tone::bad;
  return trend == Trend::better ? Tone::good : Tone::plain;
}

}  // namespace

std::string finding_text(const Finding& finding) {
  std::string out = std::string(name(finding.status)) + ": " + joined(finding.key, finding.metric);
  if (finding.value) out += ", " + value_text(finding);
  if (finding.limit) out += ", limit " + limit_text(finding) + (finding.value ? "" : " " + finding.unit);
  if (!finding.detail.empty()) out += "\n  " + finding.detail;
  for (const Culprit& offender : finding.offenders) {
    out += "\n  " + text(offender) + (offender.value ? ": " + number_text(*offender.value) : "");
  }
  if (finding.offender_count > finding.offenders.size()) {
    out += "\n  and " + std::to_string(finding.offender_count - finding.offenders.size()) + " more";
  }
  if (finding.offenders.empty() && finding.worst) out += "\n  " + text(*finding.worst);
  if (!finding.rule_at.empty()) out += "\n  rule: " + finding.rule_at;
  if (finding.judgement != Judgement::rule) out += "\n  judged by: " + std::string(name(finding.judgement));
  if (!finding.source.empty()) out += "\n  source: " + finding.source;
  if (!finding.next.empty()) out += "\n  next: " + finding.next;
  return out;
}

std::string terminal_text(const Verdict& verdict, TerminalStyle style) {
  std::string out = culprits_text(verdict, style.color) + findings_table(verdict, style) + reasons(verdict) +
                    unjudged(verdict) + "\n" + judgements_text(verdict);
  for (const std::string& note : verdict.notes) out += indented(note, "note: ");
  return out + verdict_line(verdict) + "\n";
}

std::string terminal_text(const Regression& regression, double tolerance, TerminalStyle style) {
  Table table({{"benchmark"}, {"baseline"}, {"now"}, {"change"}, {"status"}});
  std::size_t worse = 0, missing = 0;
  for (const Change& change : regression.changes) {
    const std::string unit = unit_of(change.metric);
    table.add({{joined(change.key, change.metric)},
               {change.before ? joined(number_text(*change.before), unit) : "-"},
               {change.after ? joined(number_text(*change.after), unit) : "-"},
               {percent_text(change.percent)},
               {joined(std::string(name(change.trend)), change.detail), tone_of(change.trend)}});
    if (change.trend == Trend::worse) ++worse;
    if (change.trend == Trend::missing) ++missing;
  }
  return table.text(style) + "\nREGRESSION: " + std::to_string(worse) + " worse, " + std::to_string(missing) +
         " missing, " + std::to_string(regression.compared) + " compared (tolerance " + number_text(100 * tolerance) +
         " %)\n";
}

}  // namespace shakedown
