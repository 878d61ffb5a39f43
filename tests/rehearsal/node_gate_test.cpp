// Tests the judgement of `accept --gate`: its rows, its comparison with earlier accepted runs, and its error rates on
// generated nodes. docs/verdict.md has the rates of the nightly test.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/files.hpp"
#include "report/rehearsal_outcome.hpp"
#include "tests/nightly.hpp"
#include "tests/rehearsal/judge_gate.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/ledger/ledger.hpp"

namespace shakedown::rehearsal::node_gate_test {
namespace {

namespace fs = std::filesystem;

const fs::path source = SHAKEDOWN_SOURCE_DIR;
const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

const std::vector<Profile>& profiles() {
  static const auto loaded = load_profiles(source / "thresholds");
  return loaded;
}

/// A gate of one node.
Order gate(int gpus, const char* noise, std::uint64_t seed, const char* faults = "none") {
  Order order;
  order.shape.gpus = gpus;
  order.noise = read_noise(source / "thresholds/rehearsal/noise" / (std::string(noise) + ".yaml"));
  order.seed = seed;
  order.launch = 1000;
  order.tier = Tier::gate;
  order.limits = &profiles();
  if (faults != std::string("none")) order.faults = placed(parse_faults(faults), order.shape, seed);
  return order;
}

TEST(AGate, HasTheFamiliesOfTheTableAndIsFit) {
  for (const int gpus : {1, 2, 4, 8}) {
    const Fleet fleet(gate(gpus, "calm", 7));
    std::vector<std::string> families;
    for (const Results& file : fleet.results()) families.push_back(file.rows.front().key.family());
    EXPECT_EQ(families, gate_families());
    const Verdict verdict = judge_fleet(fleet, profiles());
    EXPECT_EQ(verdict.state, State::fit) << gpus;
    EXPECT_EQ(verdict.exit_code, 0);
    EXPECT_NE(verdict_line(verdict).find("gate of 5 of "), std::string::npos) << verdict_line(verdict);
  }
}

TEST(AGate, WithoutAFamilyIsNotFit) {
  auto files = Fleet(gate(2, "calm", 7)).results();
  ASSERT_EQ(files[1].rows.front().key.family(), "gemm");
  files.erase(files.begin() + 1);
  const Verdict missing = judge(Measured(files), References(profiles()), {});
  EXPECT_EQ(missing.exit_code, 1) << verdict_line(missing);
  JudgeOptions asked;
  asked.families.names = {"preflight", "hbm"};
  EXPECT_EQ(judge(Measured(files), References(profiles()), asked).state, State::partial) << "it was not asked for";
}

TEST(AGate, WhoseFamilyHasNoJudgedRowIsNotFit) {
  auto files = Fleet(gate(2, "calm", 7)).results();
  std::erase_if(files[2].rows, [](const Row& row) { return row.key.part("op") != "copy"; });
  files[2].rows.front().key = Key("hbm/op:copy/engine:sm/bytes:123");
  EXPECT_NE(judge(Measured(files), References(profiles()), {}).exit_code, 0);
}

/// Returns the events of accepted runs, all of one GPU model and one software.
std::vector<LedgerEvent> accepted_runs(Order order, int count) {
  std::vector<LedgerEvent> runs;
  order.tier = Tier::quick;
  order.faults.clear();
  for (int run = 0; run < count; ++run) {
    order.launch = static_cast<std::uint64_t>(run + 1);
    const Fleet fleet(order);
    const Measured measured(fleet.results());
    for (LedgerEvent& event : events_of(judge_fleet(fleet, profiles()), &measured, "")) {
      event.time = fmt::format("2026-11-{:02}T06:00:00Z", run + 1);
      event.id = fmt::format("run{}", run + 1);
      event.verdict = State::pass;
      event.outcome = NodeState::good;
      event.whole = true;
      runs.push_back(std::move(event));
    }
  }
  return runs;
}

const Finding* own_finding(const Verdict& verdict) {
  for (const Finding& finding : verdict.findings) {
    if (finding.metric.ends_with("_vs_own")) return &finding;
  }
  return nullptr;
}

std::string own_summary(const Verdict& verdict) {
  for (const Summary& summary : verdict.summaries) {
    if (summary.by == Judgement::baseline) return summary.text;
  }
  return "";
}

TEST(AGate, FindsOnOneGpuWhatNoLimitShows) {
  const Fleet slow(gate(1, "calm", 11, "gemm:0.05"));
  EXPECT_EQ(judge_fleet(slow, profiles()).state, State::fit) << "without earlier runs";
  const Verdict verdict = judge_gate(slow, profiles(), 3);
  EXPECT_EQ(verdict.state, State::fail);
  const Finding* const finding = own_finding(verdict);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->key.family(), "gemm");
  EXPECT_EQ(finding->code, Code::baseline);
  ASSERT_TRUE(finding->worst && finding->compared());
  EXPECT_EQ(finding->worst->rank, 0);
  EXPECT_LT(finding->compared()->value, finding->compared()->limit.value);
  EXPECT_NE(finding->detail.find("own median"), std::string::npos) << finding->detail;
  EXPECT_NE(finding->detail.find("3 accepted runs"), std::string::npos) << finding->detail;
  EXPECT_EQ(own_summary(judge_gate(Fleet(gate(1, "calm", 11)), profiles(), 3)).find("6 figures compared"), 0U);
}

TEST(AGate, IsNotComparedWithRunsOfOtherSoftwareOtherGpusOrOtherNodes) {
  const Fleet slow(gate(1, "calm", 11, "gemm:0.05"));
  auto runs = accepted_runs(slow.order(), 2);
  ASSERT_NE(own_finding(judge_fleet(slow, profiles(), &runs)), nullptr);
  auto other_driver = runs, other_gpu = runs, other_node = runs;
  for (auto& run : other_driver) run.software["driver"] = "999.1";
  for (auto& run : other_gpu) run.gpus.front().serial = "another";
  for (auto& run : other_node) run.node = "another";
  const Verdict verdict = judge_fleet(slow, profiles(), &other_driver);
  EXPECT_EQ(verdict.state, State::fit);
  EXPECT_EQ(own_summary(verdict), "no accepted run of these GPUs with this software in the ledger");
  const Verdict with_other_gpu = judge_fleet(slow, profiles(), &other_gpu);
  EXPECT_EQ(with_other_gpu.state, State::fit);
  EXPECT_EQ(own_summary(with_other_gpu), own_summary(verdict));
  EXPECT_EQ(judge_fleet(slow, profiles(), &other_node).state, State::fit);
}

TEST(AWholeRun, IsNotComparedWithEarlierRuns) {
  Order order = gate(1, "calm", 11, "gemm:0.05");
  order.tier = Tier::quick;
  const auto runs = accepted_runs(order, 1);
  EXPECT_EQ(own_finding(judge_fleet(Fleet(order), profiles(), &runs)), nullptr);
}

TEST(AGate, OfProcessorsWarnsWhereTheyAreSlowerThanBefore) {
  const Fleet slow(gate(1, "calm", 11, "gemm:0.05"));
  const Measured measured(slow.results());
  OwnRecord record = own_record(accepted_runs(slow.order(), 1), measured);
  auto files = slow.results();
  for (Results& file : files) file.context.backend = Backend::host;
  const auto judgement = judge_own_record(Measured(files), record);
  ASSERT_EQ(judgement.findings.size(), 1U);
  EXPECT_EQ(judgement.findings.front().severity, Severity::warn);
}

TEST(ALedger, GivesTheNewestAcceptedRunsOfANodeAndNoOthers) {
  const testing_support::Folder folder;
  auto runs = accepted_runs(gate(1, "calm", 11), 8);
  runs[7].outcome = NodeState::bad;
  runs[7].verdict = State::fail;
  runs[6].whole = false;
  for (const LedgerEvent& run : runs) add_event(folder.path(), run);
  LedgerEvent other = runs[5];
  other.node = "node9999";
  add_event(folder.path(), other);
  LedgerEvent repaired;
  repaired.kind = EventKind::repaired;
  repaired.node = runs[0].node;
  repaired.time = "2026-11-20T06:00:00Z";
  repaired.id = "repair";
  add_event(folder.path(), repaired);
  folder.write("20261130T060000Z-" + runs[0].node + "-run-broken.json", "{");
  const auto found = newest_accepted_runs(folder.path(), runs[0].node);
  std::string ids;
  for (const LedgerEvent& run : found) ids += run.id + " ";
  EXPECT_EQ(ids, "run6 run5 run4 run3 run2 ");
  EXPECT_TRUE(found.front().figures.by_gpu.contains(FigureName(gemm + " tflops")));
  EXPECT_TRUE(newest_accepted_runs(folder.path(), "node1234").empty());
  EXPECT_THROW(newest_accepted_runs(folder.path() / "none", "node1234"), InputError);
}

/// A noise model, a number of GPUs, a fault, and the numbers of trials in the unit test and in the nightly test.
struct Trial {
  const char* noise;
  int gpus;
  const char* fault;
  int trials;
};

std::string text(const Trial& trial) { return fmt::format("{}, {} GPUs, {}", trial.noise, trial.gpus, trial.fault); }

struct Counts {
  int trials = 0, refused = 0, failed = 0, named = 0, innocent = 0;
};

/// True if the node passes without its fault in another launch. A chip whose clock is below the limits is never
/// accepted.
bool is_accepted(const Fleet& fleet) {
  Order order = fleet.order();
  order.faults.clear();
  order.launch = 1;
  return judge_fleet(Fleet(order), profiles()).state == State::fit;
}

/// Judges each gate of an accepted node with one earlier run. The seeds are other ones than those with which limits
/// were chosen.
Counts counts_of(const Trial& trial) {
  constexpr std::uint64_t first_seed = 710'000;
  Counts counts;
  counts.trials = testing_support::is_nightly() ? trial.trials : 2;
  for (int i = 0; i < counts.trials; ++i) {
    const Fleet fleet(gate(trial.gpus, trial.noise, first_seed + static_cast<std::uint64_t>(i), trial.fault));
    if (!is_accepted(fleet)) {
      ++counts.refused;
      continue;
    }
    const Outcome outcome = outcome_of(fleet, judge_gate(fleet, profiles(), 1));
    counts.failed += outcome.state == State::fail ? 1 : 0;
    counts.named += outcome.named ? 1 : 0;
    counts.innocent += outcome.innocent ? 1 : 0;
  }
  EXPECT_LE(counts.refused, std::max(1.0, 0.02 * counts.trials)) << text(trial);
  counts.trials -= counts.refused;
  return counts;
}

TEST(AGateOfAHealthyNode, Passes) {
  for (const Trial& trial : {Trial{"stalls", 1, "none", 600},
                             {"mixed", 1, "none", 600},
                             {"stalls", 2, "none", 600},
                             {"mixed", 2, "none", 600},
                             {"stalls", 8, "none", 300},
                             {"mixed", 8, "none", 300}}) {
    const Counts counts = counts_of(trial);
    EXPECT_EQ(counts.failed, 0) << text(trial) << " of " << counts.trials;
    fmt::print("{}: {} of {} failed, {} refused\n", text(trial), counts.failed, counts.trials, counts.refused);
  }
}

TEST(AGateOfANodeWithAFault, FindsIt) {
  for (const Trial& trial : {Trial{"calm", 1, "gemm:0.05", 300},
                             {"calm", 1, "hbm:0.05", 300},
                             {"mixed", 1, "gemm:0.05", 300},
                             {"mixed", 1, "hbm:0.05", 300},
                             {"calm", 2, "gemm:0.05", 300},
                             {"calm", 2, "hbm:0.05", 300},
                             {"calm", 2, "link:0.05", 300},
                             {"mixed", 2, "gemm:0.05", 300},
                             {"mixed", 2, "hbm:0.05", 300},
                             {"mixed", 2, "link:0.05", 300},
                             {"mixed", 8, "gemm:0.05", 100},
                             {"mixed", 8, "hbm:0.05", 100},
                             {"mixed", 8, "link:0.05", 100}}) {
    const Counts counts = counts_of(trial);
    EXPECT_GE(counts.failed, 0.99 * counts.trials) << text(trial) << " of " << counts.trials;
    EXPECT_GE(counts.named, 0.99 * counts.trials) << text(trial) << " of " << counts.trials;
    EXPECT_LE(counts.innocent, 0.005 * counts.trials) << text(trial) << " of " << counts.trials;
    fmt::print("{}: {} of {} named\n", text(trial), counts.named, counts.trials);
  }
}

}  // namespace
}  // namespace shakedown::rehearsal::node_gate_test
