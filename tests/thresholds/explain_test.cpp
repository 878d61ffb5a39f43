// Tests the output of --explain=KEY.
#include <gtest/gtest.h>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown::explain_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string gemm_rule = "  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 620, source: s";

TEST(Explain, ShowsRulesValuesAndJudgement) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 600, {700, 690, 710, 600}).repeated();
  const Measured results{builder.results()};
  const auto profiles = profile(gemm_rule + "}\n  - {benchmark: \"" + gemm +
                                "\", metric: tflops, every: run, min: 1, ranks: 8, source: t}\n");
  const Verdict verdict = judge(results, profiles, {});
  const std::string text = explain(results, profiles, verdict, gemm);
  for (const char* part :
       {"min 620", "source: s", "applies", "does not apply: for ranks 8, the run has 4",
        "physical ceiling: 989.4 TFLOPS", "600 TFLOPS  rank 3 node0", "fail: tflops 600 against min 620"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  EXPECT_NE(explain(results, profiles, verdict, "machine/ranks").find("pass"), std::string::npos);
  EXPECT_THROW(explain(results, profiles, verdict, "gemm/x:1"), InputError);
}

TEST(Explain, SaysWhatChecksOfAProductCannotSee) {
  const auto text = [](std::vector<double> rates, double series) {
    ResultsBuilder builder(static_cast<int>(rates.size()));
    const std::map<std::string, double> more{{"series", series}};
    builder
        .add(gemm, "tflops", 700, std::vector<OptionalDouble>(rates.begin(), rates.end()),
             series > 0 ? more : std::map<std::string, double>{})
        .by_rank("least_error_found", RankValues(rates.size(), 1.18));
    const Measured results{builder.results()};
    const auto profiles = profile(gemm_rule + "}\n");
    return explain(results, profiles, judge(results, profiles, {}), gemm);
  };
  const auto one = text({700}, 44), two = text({700, 701}, 0), four = text({700, 701, 702, 703}, 44);
  for (const auto& said : {one, two, four}) {
    EXPECT_NE(said.find("an error of one element from 1.18 standard deviations"), std::string::npos) << said;
  }
  EXPECT_NE(one.find("44 operations after"), std::string::npos) << one;
  EXPECT_EQ(two.find("operations after"), std::string::npos) << two;
  EXPECT_NE(one.find("only if the bits change between operations: one rank has no vote"), std::string::npos);
  EXPECT_NE(two.find("two ranks"), std::string::npos) << two;
  EXPECT_NE(four.find("the vote"), std::string::npos) << four;
}

}  // namespace
}  // namespace shakedown::explain_test
