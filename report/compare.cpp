#include "report/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/process.hpp"
#include "base/temporary_folder.hpp"
#include "base/text.hpp"
#include "report/costs.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/key_names.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

/// Returns the results of a run. If the run is an archive, unpacks it into `folder` first.
fs::path results_of(const fs::path& run, const fs::path& folder) {
  if (run.extension() != ".tar") return run;
  const auto tar = output_of({"tar", "-xf", run.string(), "-C", folder.string()}, std::chrono::minutes(5));
  const auto names = names_in(folder).value_or(std::vector<std::string>{});
  if (!tar.started || tar.code != 0 || names.size() != 1) {
    throw InputError(run.string() +
                     ": is not an archive of a run: " + one_line(tar.text.substr(0, tar.text.find('\n'))));
  }
  return folder / names.front();
}

std::string name_of(const fs::path& run) { return (run.has_filename() ? run : run.parent_path()).filename(); }

/// Returns "same", "worse", "no sure difference", ..., which says whether the difference exceeds the noise between
/// launches.
Table::Cell judgement(const Change& change) {
  if (change.trend == Trend::worse) return {"B is worse", Table::Tone::bad};
  if (change.trend == Trend::better) return {"B is better", Table::Tone::good};
  if (change.trend == Trend::missing) return {"only in A"};
  if (change.trend == Trend::added) return {"only in B"};
  return {change.trend == Trend::same ? "same" : "not sure"};
}

/// Returns all changes: losses first and then gains, the largest first, then the others in their order.
std::vector<const Change*> ordered(const Regression& regression) {
  std::vector<const Change*> changes;
  for (const Change& change : regression.changes) changes.push_back(&change);
  std::stable_sort(changes.begin(), changes.end(), [](const Change* a, const Change* b) {
    const auto place = [](const Change& c) {
      const int group = c.trend == Trend::worse ? 0 : c.trend == Trend::missing ? 1 : c.trend == Trend::better ? 2 : 3;
      return std::pair(group, group == 3 ? 0.0 : -std::abs(c.percent.value_or(0)));
    };
    return place(*a) < place(*b);
  });
  return changes;
}

/// Returns the last line, such as "COMPARE: B is worse in 2 figures and better in 0 of 136 in both: GEMM ... -4.1 %".
std::string last_line(const std::vector<const Change*>& changes) {
  const auto count = [&](Trend trend) {
    return std::count_if(changes.begin(), changes.end(), [&](const Change* c) { return c->trend == trend; });
  };
  const auto both =
      std::count_if(changes.begin(), changes.end(), [](const Change* c) { return c->before && c->after; });
  std::string line = fmt::format("COMPARE: B is worse in {} and better in {} of {} figures in both",
                                 count(Trend::worse), count(Trend::better), both);
  if (count(Trend::missing) > 0) line += fmt::format("; {} of A are missing in B", count(Trend::missing));
  if (count(Trend::worse) > 0) {
    const Change& worst = *changes.front();
    line += fmt::format(": {} {:+.1f} %", named_text(worst.key, worst.metric), worst.percent.value_or(0));
  }
  return line;
}

/// Returns what a million tokens, or an EFLOP (10^18 operations), cost on a GPU at these prices for its hour, for each
/// figure that is such a rate. Empty if the runs have none.
std::string compared_costs(const Regression& regression, const std::vector<double>& prices,
                           const TerminalStyle& style) {
  Table table({{"cost"}, {"A"}, {"B"}, {"difference"}});
  bool any = false;
  for (const Change& change : regression.changes) {
    const bool is_tokens = change.metric == "tokens_per_s";
    if (!(is_tokens || change.metric == "tflops") || change.before.value_or(0) <= 0 || change.after.value_or(0) <= 0)
      continue;
    const double a = cost_of_a_million(prices.front(), *change.before),
                 b = cost_of_a_million(prices.back(), *change.after);
    table.add_words({std::string(is_tokens ? "1,000,000 tokens: " : "1 EFLOP: ") + change.key.text(),
                     fmt::format("{:.4f}", a), fmt::format("{:.4f}", b), fmt::format("{:+.1f} %", 100 * (b / a - 1))});
    any = true;
  }
  if (!any) return "";
  return fmt::format("\ncosts at {} for a GPU hour in A and {} in B:\n", prices.front(), prices.back()) +
         table.text(style.table());
}

}  // namespace

int compare(const Arguments& arguments) {
  if (arguments.operands.size() != 2) throw InputError("compare needs two runs: shakedown compare A B; see --help");
  const auto &a = arguments.operands.front(), &b = arguments.operands.back();
  const TemporaryFolder folder_of_a, folder_of_b;
  const Measured now(read_results(std::vector{results_of(b, folder_of_b.path())}));
  refuse_faults(now.files, arguments.judge.allow_faults);
  refuse_virtual(now.files, "compare");
  const Baseline before = read_baseline({results_of(a, folder_of_a.path())}, arguments.judge.allow_faults);
  auto options = arguments.regression;
  options.allow_different = true;
  const Regression regression = judge_regression(now, before, options);
  Table table({{"figure"}, {"A: " + name_of(a)}, {"B: " + name_of(b)}, {"difference"}, {"95 % interval"}, {""}});
  const auto style = style_of(arguments);
  const auto changes = ordered(regression);
  for (const Change* const shown : changes) {
    const Change& change = *shown;
    const auto percent = [](const std::optional<double>& x) {
      return x ? fmt::format("{:+.1f} %", *x) : std::string("-");
    };
    table.add({{style.all ? joined_words(change.key, change.metric) : named_text(change.key, change.metric)},
               {value_text(change.before, change.metric)},
               {value_text(change.after, change.metric)},
               {percent(change.percent)},
               {change.low && change.high ? percent(change.low) + " to " + percent(change.high) : "-"},
               judgement(change)});
  }
  std::fputs(table.text(style.table()).c_str(), stdout);
  if (!arguments.prices.empty()) std::fputs(compared_costs(regression, arguments.prices, style).c_str(), stdout);
  for (const auto& note : regression.notes) std::printf("note: %s\n", printable(note).c_str());
  std::puts(last_line(changes).c_str());
  return 0;
}

}  // namespace shakedown
