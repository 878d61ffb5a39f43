// Tests what tokens cost at a price for an hour of a GPU.
#include "report/costs.hpp"

#include <gtest/gtest.h>

#include "tests/thresholds/results_builder.hpp"

namespace shakedown::costs_test {
namespace {

using testing_support::ResultsBuilder;

const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";

std::string costs_of(const ResultsBuilder& builder) {
  const Measured measured({builder.results()});
  return costs_text(measured.benchmarks, 2.5, {});
}

TEST(Costs, OfTokensAreThoseOfTheGpusThatMadeThem) {
  ResultsBuilder builder(4);
  builder.add(step, "tokens_per_s", 18000, {}, {{"tokens_per_s_total", 72000}})
      .by_rank("joule_per_token", {0.038, 0.039, 0.04, 0.039});
  const auto text = costs_of(builder);
  // 10^6 tokens take 1e6 / 18000 s of a GPU, at 2.5 / 3600 for each second.
  EXPECT_NE(text.find("training on 4 GPUs at 2.5 for a GPU hour:\n"), std::string::npos) << text;
  EXPECT_NE(text.find(step + "  72000     0.0390   0.03858              38580            161\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("a GPU that is 1 % slow costs 18 in 30 days\n"), std::string::npos) << text;
}

TEST(Costs, AreLeftOutWhereNothingTrains) {
  EXPECT_EQ(costs_of(ResultsBuilder().add("hbm/op:copy/engine:sm/bytes:4294967296", "hbm_gb_per_s", 4000)),
            "costs: the run has no training row\n\n");
}

TEST(Costs, SayThatTheEnergyIsUnknown) {
  const auto text = costs_of(ResultsBuilder(4).add(step, "tokens_per_s", 18000, {}, {{"tokens_per_s_total", 72000}}));
  EXPECT_NE(text.find("  72000     -        0.03858 "), std::string::npos) << text;
}

}  // namespace
}  // namespace shakedown::costs_test
