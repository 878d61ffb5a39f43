#include "report/regress.hpp"

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

/// A store keeps its first launches, because they show a slow decline, and its last ones.
constexpr std::size_t first_launches = 10, last_launches = 20;

int show(const Regression& regression, const Arguments& arguments) {
  write_outputs(arguments.outputs, regression);
  std::fputs(terminal_text(regression, style_of(arguments)).c_str(), stdout);
  return regression.exit_code;
}

/// Returns why a run must not become a reference for later runs. Empty if it may become one.
std::string reason_to_leave_out(const Regression& regression, const Verdict& verdict) {
  if (!is_good(verdict.state)) return "the verdict of the run is " + std::string(name(verdict.state));
  return regression.exit_code == 1 ? "a figure is worse or missing" : "";
}

/// Returns the stored runs of this kind of machine. Omits `now`, which may have been stored already. nullopt if there
/// are none.
std::optional<Baseline> earlier_runs(const fs::path& file, const Baseline& now) {
  if (!path_exists(file)) return std::nullopt;
  Baseline stored = read_baseline({file});
  for (const auto& [name, facts] : now.launches) erase_launch(stored, name);
  return stored.launches.empty() ? std::nullopt : std::optional(std::move(stored));
}

void add_to(const fs::path& file, std::vector<Baseline> runs, Regression& regression) {
  Baseline grown = merge(runs);
  keep_launches(grown, first_launches, last_launches);
  store_baseline(file, grown);
  regression.notes.push_back("added to " + file.string() + ", which has " + plural(grown.launches.size(), "run") +
                             " now");
}

int compare_with_store(const Arguments& arguments) {
  const Judged judged = judge(arguments);
  const auto kinds = baselines_of(judged.measured->files);
  if (kinds.size() > 1) throw InputError("--store: the results are of several kinds of machine; give those of one");
  const Baseline& now = kinds.front();
  const fs::path file = *arguments.store / baseline_folder(now, judged.profiles) / "baseline.json";
  const auto before = earlier_runs(file, now);
  Regression regression;
  if (before) {
    regression = judge_regression(*judged.measured, *before, arguments.regression);
  } else {
    regression.min_effect = arguments.regression.min_effect;
    regression.exit_code = is_good(judged.verdict.state) ? 0 : judged.verdict.exit_code;
    regression.notes.push_back("the store has no earlier run of this kind of machine");
  }
  std::string reason = reason_to_leave_out(regression, judged.verdict);
  if (before && !differences(now.facts, before->facts).empty())
    reason = "the run has another configuration than the stored runs";
  if (reason.empty()) {
    add_to(file, before ? std::vector{*before, now} : std::vector{now}, regression);
  } else {
    regression.notes.push_back("not added to " + file.string() + ": " + reason);
  }
  return show(regression, arguments);
}

}  // namespace

int regress(const Arguments& arguments) {
  if (arguments.results.empty() || arguments.baseline.empty() == !arguments.store) {
    throw InputError("regress needs --results, and --baseline or --store; see --help");
  }
  if (arguments.store) return compare_with_store(arguments);
  const Measured results(read_results(arguments.results));
  refuse_faults(results.files, arguments.judge.allow_faults);
  refuse_virtual(results.files, "regress");
  const Baseline before = read_baseline(arguments.baseline, arguments.judge.allow_faults);
  return show(judge_regression(results, before, arguments.regression), arguments);
}

}  // namespace shakedown
