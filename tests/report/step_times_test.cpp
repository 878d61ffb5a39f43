// Tests the time of profiled steps in a verdict and in its texts.
#include "thresholds/judge/step_times.hpp"

#include <gtest/gtest.h>

#include "report/markdown.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::step_times_test {
namespace {

using testing_support::ResultsBuilder;

const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";

/// Two ranks; rank 0 waits for rank 1.
ResultsBuilder profiled() {
  ResultsBuilder builder(2);
  builder.add(step, "tokens_per_s", 18000, {}, {{"tokens_per_s_total", 36000}});
  const std::map<std::string, std::pair<double, double>> values{
      {"gemm_ms", {300, 310}}, {"attention_ms", {60, 62}},  {"pointwise_ms", {40, 41}},
      {"loss_ms", {5, 5}},     {"update_ms", {2, 2}},       {"communication_ms", {20, 8}},
      {"fixed_ms", {23, 22}},  {"profiled_ms", {450, 450}}, {"profile_cost_percent", {1.2, 1.3}},
  };
  for (const auto& [name, of_ranks] : values) builder.by_rank(name, {of_ranks.first, of_ranks.second});
  builder.last().text_by_rank["profile_source"] = {"CUPTI", "CUPTI"};
  return builder;
}

Verdict verdict_of(const ResultsBuilder& builder) {
  const Measured measured({builder.results()});
  return judge(measured, testing_support::shipped_profiles(), {});
}

TEST(StepTimes, AreThoseOfTheRankThatWaitsTheLeast) {
  const Measured measured({profiled().results()});
  const auto times = step_times_of(measured.benchmarks);
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].rank, 1);
  EXPECT_EQ(times[0].class_ms[static_cast<std::size_t>(PartClass::gemm)], 310);
  EXPECT_EQ(times[0].fixed_ms, 22);
  EXPECT_EQ(times[0].whole_ms, 450);
  EXPECT_EQ(times[0].source, "CUPTI");
}

TEST(StepTimes, AreAbsentWithoutAProfile) {
  const auto builder = ResultsBuilder(2).add(step, "tokens_per_s", 18000);
  EXPECT_TRUE(verdict_of(builder).step_times.empty());
  EXPECT_EQ(verdict_json(verdict_of(builder)).find("step_times"), std::string::npos);
}

TEST(StepTimes, AreInTheTextOfTheReport) {
  const auto text = terminal_text(verdict_of(profiled()));
  EXPECT_NE(text.find(step + "  gemm"), std::string::npos) << text;
  EXPECT_NE(text.find("310.00  68.9 %"), std::string::npos) << text;
  EXPECT_NE(text.find("CUPTI, +1.3 %"), std::string::npos) << text;
}

TEST(StepTimes, AreInTheMarkdown) {
  const auto text = markdown_text(verdict_of(profiled()));
  EXPECT_NE(text.find("| attention | 62.00 | 13.8 % |"), std::string::npos) << text;
}

TEST(StepTimes, AreInTheJsonAndReadBack) {
  const auto verdict = verdict_of(profiled());
  const auto text = verdict_json(verdict);
  EXPECT_NE(text.find("\"gemm_ms\": 310.0"), std::string::npos) << text;
  const testing_support::Folder folder;
  EXPECT_EQ(read_verdict(folder.write("verdict.json", text)).step_times, verdict.step_times);
}

TEST(StepTimes, OfARankWithoutAProfileAreLeftOut) {
  auto builder = profiled();
  builder.by_rank("communication_ms", {20, std::nullopt});
  const Measured measured({builder.results()});
  const auto times = step_times_of(measured.benchmarks);
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].rank, 0);
}

}  // namespace
}  // namespace shakedown::step_times_test
