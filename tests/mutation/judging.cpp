#include "tests/mutation/judging.hpp"

#include <array>
#include <memory>
#include <stdexcept>

#include "base/files.hpp"
#include "report/culprits.hpp"
#include "report/markdown.hpp"
#include "report/node_commands.hpp"
#include "report/outputs.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/judge/nodes.hpp"

namespace shakedown::mutation {
namespace {

/// The number of comparisons: --baseline, regress, baseline and floors, scaling.
constexpr std::size_t comparisons = 4;

/// One in this number of verdicts is read again.
constexpr std::size_t rereadings = 3;

void check_nodes(const Verdict& verdict) {
  const NodeList list = decide_nodes(verdict);
  static_cast<void>(nodes_json(list));
  static_cast<void>(scontrol_commands(list));
  static_cast<void>(kubectl_commands(list));
  for (const NodeState state : {NodeState::good, NodeState::bad}) static_cast<void>(host_file(list, state));
}

void propose_floors(const std::vector<Results>& files, const std::vector<Profile>& profiles) {
  for (Baseline& baseline : baselines_of(files)) {
    leave_out_outliers(baseline);
    static_cast<void>(baseline_json(baseline));
    static_cast<void>(terminal_text(baseline));
    static_cast<void>(floors_yaml(baseline, "proposed", &profiles.front(), {}));
  }
}

}  // namespace

Judging::Judging(std::vector<Profile> profiles, std::filesystem::path scratch)
    : profiles_(std::move(profiles)), scratch_(std::move(scratch)) {}

Verdict Judging::verdict(const std::vector<Results>& files) const {
  return judge(Measured(files), References(profiles_), {});
}

Verdict Judging::verdict(const Run& run, std::vector<Results> files, const std::string& key, std::size_t turn) const {
  Judged judged;
  judged.measured = std::make_unique<const Measured>(std::move(files));
  judged.profiles = profiles_;
  judged.verdict = judge(*judged.measured, References(profiles_), {});
  show(judged, key, turn);
  compare(run, *judged.measured, turn);
  return judged.verdict;
}

void Judging::show(const Judged& judged, const std::string& key, std::size_t turn) const {
  const Verdict& verdict = judged.verdict;
  static_cast<void>(outputs<Judged>()[turn / comparisons % outputs<Judged>().size()].text(judged));
  static_cast<void>(terminal_text(verdict, {true, 120, true}));
  static_cast<void>(terminal_text(verdict));
  static_cast<void>(matrices_text(judged.measured->files));
  static_cast<void>(text(headline_of(verdict)));
  check_nodes(verdict);
  // explain() throws for a key without rows and rules.
  static_cast<void>(input_error_of([&] { explain(*judged.measured, profiles_, verdict, key); }));
  if (turn % rereadings != 0) return;
  const auto file = scratch_ / "verdict.json";
  replace_file(file, verdict_json(verdict));
  const auto refused = input_error_of([&] { check_nodes(read_verdict(file)); });
  if (!refused.empty()) throw std::runtime_error("its own verdict is refused: " + refused);
}

void Judging::compare(const Run& run, const Measured& measured, std::size_t turn) const {
  const auto by_baseline = [&] {
    References references(profiles_);
    references.baseline = run.other;
    const Verdict verdict = judge(measured, references, {});
    static_cast<void>(terminal_text(verdict));
    check_nodes(verdict);
  };
  const auto regress = [&] {
    const Regression regression = judge_regression(measured, *run.other);
    static_cast<void>(terminal_text(regression));
    static_cast<void>(markdown_text(regression));
  };
  const auto scaling = [&] {
    References references(profiles_);
    references.scaling = {{.files = run.smaller}};
    static_cast<void>(terminal_text(judge(measured, references, {})));
  };
  const bool alone = !run.other;
  switch (turn % comparisons) {
    case 0: return alone ? void() : void(input_error_of(by_baseline));
    case 1: return alone ? void() : void(input_error_of(regress));
    case 2: return void(input_error_of([&] { propose_floors(measured.files, profiles_); }));
    default: return run.smaller.empty() ? void() : void(input_error_of(scaling));
  }
}

}  // namespace shakedown::mutation
