// Tests the efficiency of GPUs with more nodes or ranks.
#include "thresholds/history/scaling.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/arguments.hpp"
#include "report/terminal.hpp"
#include "tests/thresholds/results_builder.hpp"

namespace shakedown::scaling_test {
namespace {

using testing_support::Folder;
using testing_support::ResultsBuilder;

const std::string sum = "allreduce/dtype:f32/bytes:1073741824";
const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";

ScalingSet steps(int ranks, double tokens) {
  return {.files = {ResultsBuilder(ranks).add(step, "tokens_per_s", tokens).results()}};
}

TEST(Scaling, FindsTheEfficiencyThatPassedAs98Percent) {
  const auto [points, findings] = judge_scaling({steps(16, 8560), steps(1, 41480), steps(8, 41000)});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].status, Status::fail);
  EXPECT_NEAR(*findings[0].value, 0.206, 0.001);
  EXPECT_EQ(findings[0].metric, "tokens_per_s_efficiency");
  EXPECT_EQ(findings[0].detail,
            "of each rank: 1 rank 41480 tokens/s (100.0 %), 8 ranks 41000 tokens/s (98.8 %), 16 ranks 8560 tokens/s "
            "(20.6 %)");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[2].ranks, 16);
}

TEST(Scaling, PassesWhatKeepsItsRate) {
  EXPECT_EQ(judge_scaling({steps(1, 13640), steps(2, 13500)}).findings.at(0).status, Status::pass);
}

TEST(Scaling, RefusesOneNumberOfRanksAndNothingInCommon) {
  EXPECT_THROW(judge_scaling({steps(2, 1), steps(2, 1)}), InputError);
  const ScalingSet copies{.files = {ResultsBuilder(1).add("p2p/op:write", "copy_gb_per_s", 1).results()}};
  EXPECT_THROW(judge_scaling({steps(2, 1), copies}), InputError);
}

TEST(Scaling, HoldsOnTheStoredResultsOfH200) {
  const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;
  const auto set = [&](const char* ranks) {
    return ScalingSet{.files = read_results(std::vector{source / "ci/baselines/h200-sxm" / ranks})};
  };
  const auto findings = judge_scaling({set("4ranks/1"), set("2ranks/1"), set("1ranks/1")}).findings;
  EXPECT_GT(findings.size(), 10u);
  for (const Finding& f : findings) EXPECT_EQ(f.status, Status::pass) << f.key << " " << f.detail;
}

// --- nodes, of 8 GPUs and 8 x 400 Gb/s ---

constexpr double nics = 400;

struct Nodes {
  int count;
  double busbw, step_ms, work_ms;
  double slowest_rank = 1;  // its part of the others' work
};

Results measured(const Nodes& nodes) {
  ResultsBuilder builder(8 * nodes.count, nodes.count);
  builder.add(sum, "busbw_gb_per_s", nodes.busbw);
  // The catalogue's model: 8192 tokens in each step of a GPU.
  builder.add(step, "tokens_per_s", 8192e3 / nodes.step_ms, {}, {{"step_ms", nodes.step_ms}});
  RankValues work(static_cast<std::size_t>(8 * nodes.count), nodes.work_ms);
  work.back() = nodes.work_ms * nodes.slowest_rank;
  builder.by_rank("compute_ms", work);
  return builder.results();
}

ScalingSet asked(const Nodes& nodes) { return {.asked_hosts = nodes.count, .files = {measured(nodes)}}; }

const Finding* of(const std::vector<Finding>& findings, const std::string& key, const std::string& words) {
  for (const Finding& f : findings) {
    if (f.key == key && f.detail.find(words) != std::string::npos) return &f;
  }
  return nullptr;
}

TEST(ScalingOverNodes, HoldsEveryNumberAgainstOneNode) {
  const auto [points, findings] = judge_scaling(
      {asked({1, 470, 460, 450}), asked({2, 380, 470, 450}), {.files = {measured({4, 375, 2230, 450})}}}, nics);
  ASSERT_EQ(points.size(), 6u);
  const Finding* two = of(findings, step, "2 nodes");
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->status, Status::pass);
  const Finding* four = of(findings, step, "4 nodes");
  ASSERT_NE(four, nullptr);
  EXPECT_EQ(four->status, Status::fail) << "20.6 % of one node's rate";
  EXPECT_NEAR(*four->value, 460.0 / 2230, 1e-3);
  EXPECT_NE(four->detail.find("waiting for others and AllReduce"), std::string::npos) << four->detail;
}

TEST(ScalingOverNodes, SaysThatTheSlowestRanksOwnWorkTookTheTime) {
  const auto points =
      judge_scaling({asked({1, 470, 460, 450}), {.files = {measured({2, 380, 700, 450, 1.5})}}}, nics).points;
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points.back().key, step);
  EXPECT_NE(points.back().limited_by.find("225 of the 240 ms"), std::string::npos);
}

// 8 GPUs in each of 4 nodes: the rate of the NICs is 400 x 31/32 x 4/3 = 516.7 GB/s, that of one node 470, and that of
// 2 nodes 750.
TEST(ScalingOverNodes, HoldsAllReduceAgainstTheLesserOfNicsAndOneNode) {
  const auto judged = [](double busbw, double limit) {
    return judge_scaling({asked({1, 470, 460, 450}), {.files = {measured({4, busbw, 461, 450})}}}, limit);
  };
  const auto good = judged(440, nics);
  const Finding* four = of(good.findings, sum, "4 nodes");
  ASSERT_NE(four, nullptr);
  EXPECT_EQ(four->status, Status::pass);
  EXPECT_NEAR(*four->value, 440.0 / 470, 1e-3);
  EXPECT_TRUE(good.points.at(1).limited_by.ends_with(", 470 GB/s"));
  const auto slow = judged(100, 200);  // 258.3 by the NICs
  EXPECT_EQ(of(slow.findings, sum, "4 nodes")->status, Status::fail);
  EXPECT_EQ(slow.points.at(1).limited_by, "NICs: they allow 258.33 GB/s");
}

TEST(ScalingOverNodes, WithoutARateOfNicsHoldsManyNodesAgainstFew) {
  const auto [points, findings] =
      judge_scaling({asked({1, 470, 460, 450}), asked({2, 190, 461, 450}), {.files = {measured({4, 60, 462, 450})}}});
  EXPECT_EQ(of(findings, sum, "2 nodes:"), nullptr) << "nothing says what two should reach";
  const Finding* four = of(findings, sum, "4 nodes:");
  ASSERT_NE(four, nullptr);
  EXPECT_EQ(four->status, Status::fail);
  EXPECT_NEAR(*four->value, 60 / (190 * (31.0 / 32 * 4 / 3) / (15.0 / 16 * 2)), 1e-3);
}

TEST(ScalingOverNodes, ALaunchThatLostANodeIsMissingAndNamesIt) {
  ScalingSet two = asked({2, 380, 470, 450});
  two.lost = {"node1"};
  const ScalingSet three{.asked_hosts = 3};
  const auto findings =
      judge_scaling({asked({1, 470, 460, 450}), two, three, {.files = {measured({4, 375, 470, 450})}}}, nics).findings;
  const Finding* lost = of(findings, "machine/scaling", "2 nodes: node1 was lost");
  ASSERT_NE(lost, nullptr);
  EXPECT_EQ(lost->status, Status::missing);
  EXPECT_NE(of(findings, "machine/scaling", "3 nodes: nothing was measured"), nullptr);
}

TEST(ScalingOverNodes, OfOneFamilyHasNoFindingOfOthersButThoseAboutTheMachine) {
  ScalingSet two = asked({2, 380, 470, 450});
  two.lost = {"node1"};
  References references;
  references.scaling = {asked({1, 470, 460, 450}), two};
  JudgeOptions options;
  options.families = {{"lora_step"}};
  const auto findings = judge(Measured({measured({4, 60, 470, 450})}), references, options).findings;
  EXPECT_NE(of(findings, "machine/scaling", "2 nodes: node1 was lost"), nullptr);
  EXPECT_NE(of(findings, step, "4 nodes"), nullptr);
  EXPECT_EQ(of(findings, sum, "4 nodes"), nullptr);
}

TEST(ScalingOverNodes, AFigureThatALaunchLacksIsMissing) {
  ResultsBuilder without_step(16, 2);
  without_step.add(sum, "busbw_gb_per_s", 380);
  const ScalingSet two{.asked_hosts = 2, .files = {without_step.results()}};
  const auto findings =
      judge_scaling({asked({1, 470, 460, 450}), two, {.files = {measured({4, 375, 470, 450})}}}, nics).findings;
  const Finding* missing = of(findings, step, "has no figure of 2 nodes");
  ASSERT_NE(missing, nullptr);
  EXPECT_EQ(missing->status, Status::missing);
}

TEST(ScalingOverNodes, IsReadFromTheFolderOfTheRunAndShown) {
  const Folder folder;
  const auto write = [&](const std::string& inside, const Nodes& nodes) {
    std::filesystem::create_directories(folder.path() / inside);
    ResultsBuilder builder(8 * nodes.count, nodes.count);
    builder.add(step, "tokens_per_s", 8192e3 / nodes.step_ms);
    folder.write(inside + "/lora_step.json", builder.text());
  };
  write(".", {2, 0, 930, 0});
  write("scaling/1node", {1, 0, 460, 0});
  const auto verdict = judge(parse_arguments("report", {"--results=" + folder.path().string()},
                                             std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "thresholds"))
                           .verdict;
  ASSERT_EQ(verdict.scaling.size(), 2u);
  EXPECT_TRUE(std::any_of(verdict.summaries.begin(), verdict.summaries.end(), [](const Summary& summary) {
    return summary.by == Judgement::crosscheck &&
           summary.text == "0 of 1 benchmarks keep their rate with more nodes or ranks";
  }));
  EXPECT_NE(of(verdict.findings, step, "2 nodes 8808.6 tokens/s (49.5 %)"), nullptr);
  EXPECT_NE(terminal_text(verdict, {}).find("49.5 %"), std::string::npos);
}

}  // namespace
}  // namespace shakedown::scaling_test
