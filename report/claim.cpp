#include "report/claim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "base/utc.hpp"
#include "report/ledger.hpp"
#include "report/markdown_table.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/ledger/ledger.hpp"

namespace shakedown {
namespace {

std::string gpu_text(const Culprit& culprit) { return culprit.serial.value_or(culprit.uuid.value_or("-")); }

struct Figure {
  const Finding* finding;
  const Culprit* culprit;
  std::optional<double> shortfall;  // relative to the limit; nullopt for a limit of 0
};

bool misses_its_limit(const Finding& finding, const Culprit& culprit) {
  return finding.limit && culprit.value && finding.limit->is_missed_by(*culprit.value);
}

/// Returns the figures of GPUs and nodes that miss a limit: first those that miss the limit of a rule, then those that
/// differ from peers, each with the largest shortfall first. A figure of both kinds occurs once.
std::vector<Figure> missed_figures(const Verdict& verdict) {
  std::vector<Figure> figures;
  for (const Finding& finding : verdict.findings) {
    if (finding.good() || !finding.counts()) continue;
    for (const Culprit& culprit : finding.offenders) {
      if (!misses_its_limit(finding, culprit)) continue;
      const bool is_relative = finding.limit->value != 0;
      figures.push_back(
          {&finding, &culprit,
           is_relative ? std::optional(std::abs(finding.limit->shortfall(*culprit.value))) : std::nullopt});
    }
  }
  std::ranges::stable_sort(figures, {}, [](const Figure& figure) {
    return std::tuple(figure.finding->judgement != Judgement::rule, -figure.shortfall.value_or(1));
  });
  std::set<std::tuple<std::string, std::string, std::string, double>> seen;
  std::erase_if(figures, [&](const Figure& figure) {
    const auto& culprit = *figure.culprit;
    return !seen.emplace(gpu_text(culprit), culprit.host, figure.finding->key.text(), culprit.value.value_or(0)).second;
  });
  return figures;
}

std::string figures_text(const Verdict& verdict, std::size_t most) {
  const auto figures = missed_figures(verdict);
  std::size_t unnamed = 0;  // a finding names only its worst offenders
  for (const Figure& figure : figures) {
    const Finding& finding = *figure.finding;
    if (figure.culprit == &finding.offenders.front()) unnamed += finding.offender_count - finding.offenders.size();
  }
  const std::size_t shown = std::min(figures.size(), most);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [finding, culprit, shortfall] = figures[i];
    text += markdown_row({gpu_text(*culprit), culprit->host, readable(finding->key),
                          quantity_text(culprit->value.value_or(0), finding->unit), limit_text(*finding),
                          shortfall ? fmt::format("{:.1f} %", 100 * *shortfall) : "-", finding->source});
  }
  return shown == 0 ? ""
                    : "\n## Figures\n\n" +
                          markdown_head(
                              {"GPU", "node", "figure", "measured", "limit", "misses it by", "source of the limit"}) +
                          text + markdown_rest(figures.size() + unnamed, shown);
}

/// Returns what failed without a figure that misses a limit, such as wrong data or a lost GPU.
std::string faults_text(const Verdict& verdict, std::size_t most) {
  std::string text;
  std::size_t all = 0;
  for (const Finding* const finding : bad_findings(verdict)) {
    const bool has_figure = std::ranges::any_of(
        finding->offenders, [&](const Culprit& culprit) { return misses_its_limit(*finding, culprit); });
    if (!finding->counts() || has_figure || ++all > most) continue;
    text += markdown_row({worst_text(*finding), readable(finding->key), summary_text(*finding)});
  }
  return all == 0 ? ""
                  : "\n## Faults\n\n" + markdown_head({"where", "what", "finding"}) + text +
                        markdown_rest(all, std::min(all, most));
}

std::string end_text(const Outage& outage) {
  return outage.end == nullptr ? "no good run yet" : outage.end->time + " (run " + outage.end->id + ")";
}

std::string outages_text(const std::vector<Outage>& outages, const std::string& now, std::size_t most) {
  std::string text;
  const std::size_t shown = std::min(outages.size(), most);
  for (std::size_t i = 0; i < shown; ++i) {
    const Outage& outage = outages[i];
    text += markdown_row({outage.gpu, outage.device, outage.node, outage.runs.front()->time, outage.runs.back()->time,
                          std::to_string(outage.runs.size()), end_text(outage),
                          fmt::format("{:.1f}", outage.proven_hours()), fmt::format("{:.1f}", outage.hours(now))});
  }
  return "\n## Time\n\n" +
         markdown_head({"GPU", "device", "node", "first failed run", "last failed run", "failed runs", "good run after",
                        "hours, proven", "hours, at most"}) +
         text + markdown_rest(outages.size(), shown) +
         "\nProven hours: from the first to the last failed run. Hours at most: from the first failed run to the next "
         "good run, or to now.\n";
}

std::string money_text(const std::vector<Outage>& outages, const std::string& now, std::optional<double> price) {
  double proven = 0, most = 0;
  for (const Outage& outage : outages) {
    proven += outage.proven_hours();
    most += outage.hours(now);
  }
  std::string text = fmt::format("\n## Sum\n\nGPU-hours: {:.1f} proven, at most {:.1f}", proven, most);
  if (price) {
    text += fmt::format("  \nAt {:.2f} for a GPU-hour: {:.2f} proven, at most {:.2f}", *price, *price * proven,
                        *price * most);
  }
  return text + "\n";
}

/// Reads the ledger, with the figures of all runs of the nodes and GPUs of this run, whose events are `own`.
Ledger ledger_around(const std::vector<LedgerEvent>& own, const std::filesystem::path& folder) {
  Ledger ledger = read_ledger(folder);
  read_figures(folder, ledger, [&](const LedgerEvent& event) {
    return std::ranges::any_of(own, [&](const LedgerEvent& ours) {
      return event.node == ours.node || std::ranges::any_of(event.gpus, [&](const LedgerGpu& gpu) {
               return std::ranges::any_of(ours.gpus, [&](const LedgerGpu& one) { return one.id() == gpu.id(); });
             });
    });
  });
  return ledger;
}

/// Returns the outages to which the run with these ids belongs. Adds its events to the ledger in memory if they are not
/// there.
std::vector<Outage> outages_of_run(const std::vector<std::string>& ids, const std::vector<LedgerEvent>& own,
                                   Ledger& ledger) {
  const auto is_of_run = [&](const LedgerEvent& event) {
    return event.kind == EventKind::run && std::ranges::find(ids, event.id) != ids.end();
  };
  if (std::ranges::none_of(ledger.events, is_of_run)) {
    ledger.events.insert(ledger.events.end(), own.begin(), own.end());
    std::ranges::stable_sort(ledger.events, {}, &LedgerEvent::time);
  }
  auto outages = outages_of(ledger.events);
  std::erase_if(outages, [&](const Outage& outage) {
    return std::ranges::none_of(outage.runs, [&](const LedgerEvent* run) { return is_of_run(*run); });
  });
  return outages;
}

}  // namespace

std::string claim_text(const Verdict& verdict, const std::vector<Outage>& outages, const std::string& now,
                       std::optional<double> price, std::size_t most) {
  const std::string run = verdict.run_ids.empty() ? "" : verdict.run_ids.front();
  return "# Claim: " + markdown_escaped(text(headline_of(verdict))) + "\n\nRun " + markdown_escaped(run) + " of " +
         verdict.started + ", claimed " + now + "  \n" + markdown_escaped(verdict_line(verdict)) + "\n" +
         faults_text(verdict, most) + figures_text(verdict, most) +
         (outages.empty() ? "" : outages_text(outages, now, most) + money_text(outages, now, price)) +
         "\n`shakedown certify` signs this run, and `shakedown verify` judges its results again on another machine.\n";
}

int claim(const Arguments& arguments) {
  const Judged judged = judge(arguments);
  refuse_virtual(judged.measured->files, "a claim");
  refuse_faults(judged.measured->files, arguments.judge.allow_faults);
  if (judged.verdict.state != State::fail) {
    std::fprintf(stderr, "shakedown: claim: the verdict is %s: there is nothing to claim\n",
                 std::string(name(judged.verdict.state)).c_str());
    return 3;
  }
  if (judged.verdict.run_ids.empty() || judged.verdict.started.empty())
    throw InputError("claim: the results have no run id or no time; measure with shakedown accept or measure");
  if (std::ranges::none_of(decide_nodes(judged.verdict).nodes,
                           [](const auto& node) { return node.state == NodeState::bad; })) {
    std::fputs("shakedown: claim: no node is at fault: there is nothing to claim\n", stderr);
    return 3;
  }
  const auto own = events_of(judged.verdict, judged.measured.get(), "");
  Ledger ledger;
  if (const auto folder = ledger_of(arguments)) ledger = ledger_around(own, *folder);
  const auto outages = outages_of_run(judged.verdict.run_ids, own, ledger);
  std::fputs(claim_text(judged.verdict, outages, utc_now(),
                        arguments.prices.empty() ? std::nullopt : std::optional(arguments.prices.front()),
                        arguments.all ? std::numeric_limits<std::size_t>::max() : max_lines_shown)
                 .c_str(),
             stdout);
  return warn_of_unreadable(ledger, 0);
}

}  // namespace shakedown
