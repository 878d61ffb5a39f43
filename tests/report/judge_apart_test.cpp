// Tests judgements that crash, hang or throw, and the verdict of the raw rows.
#include "report/judge_apart.hpp"

#include <gtest/gtest.h>
#include <unistd.h>
#include <algorithm>

#include <csignal>
#include <string>
#include <vector>

#include "tests/thresholds/results_builder.hpp"

namespace shakedown::judge_apart_test {
namespace {

using namespace std::chrono_literals;
using testing_support::Folder;
using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

TEST(DeathOf, IsNoneWhereTheWorkReturnsOrThrows) {
  EXPECT_EQ(death_of("judge", [] {}), std::nullopt);
  EXPECT_EQ(death_of("judge", [] { throw InputError("results.json: is empty"); }), std::nullopt);
}

TEST(DeathOf, IsTheSignalThatEndedTheWork) {
  EXPECT_EQ(death_of("judge", [] { raise(SIGSEGV); }), "died of SIGSEGV");
  EXPECT_EQ(death_of("judge", [] { std::abort(); }), "died of SIGABRT");
}

TEST(DeathOf, IsTheLimitOfAWorkThatHangs) {
  EXPECT_EQ(death_of(
                "judge", [] { pause(); }, 1s),
            "gave no answer within 1 s");
}

class RawRowsTest : public ::testing::Test {
 protected:
  Verdict verdict_of(const ResultsBuilder& builder) {
    arguments.results = {folder.write("results.json", builder.text())};
    return judged_by_raw_rows(arguments, "died of SIGSEGV").verdict;
  }

  Arguments arguments;
  const Folder folder;
};

TEST_F(RawRowsTest, AreIncompleteWithoutAnErrorOfADevice) {
  const Verdict verdict = verdict_of(ResultsBuilder(4, 2).add(gemm, "tflops", 1).add_error("hbm/x:1", "timeout"));
  EXPECT_EQ(verdict.state, State::incomplete);
  EXPECT_EQ(verdict.exit_code, 3);
  EXPECT_EQ(verdict.ranks, 4);
  EXPECT_EQ(verdict.nodes.size(), 2u);
  ASSERT_EQ(verdict.findings.size(), 2u);
  EXPECT_EQ(verdict.findings[0].key, "machine/complete");
  EXPECT_EQ(verdict.findings[1].detail, "timeout");
}

TEST_F(RawRowsTest, FailForWrongDataAndNameItsRanks) {
  const Verdict verdict = verdict_of(ResultsBuilder().add_error(gemm, "wrong data: rank 2", {2}));
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_EQ(verdict.exit_code, 1);
  EXPECT_EQ(verdict.findings.back().worst->rank, 2);
  EXPECT_EQ(verdict.findings.back().wrong_ranks, std::vector{2});
}

TEST_F(RawRowsTest, FailForAnErrorOfTheDevice) {
  for (const std::string error : {"an illegal memory access was encountered (cudaErrorIllegalAddress, 700)",
                                  "(CUBLAS_STATUS_EXECUTION_FAILED, 13)", "(CUDNN_STATUS_EXECUTION_FAILED, 5000)"}) {
    EXPECT_EQ(verdict_of(ResultsBuilder().add_error(gemm, error)).state, State::fail) << error;
  }
}

TEST_F(RawRowsTest, AreThoseOfTheFamilyAndTheRun) {
  arguments.judge.families = {{"hbm"}};
  EXPECT_EQ(verdict_of(ResultsBuilder().add_error(gemm, "wrong data: rank 2", {2})).state, State::incomplete);
  arguments.judge.families = {};
  arguments.judge.run_id = "another";
  EXPECT_EQ(verdict_of(ResultsBuilder().add_error(gemm, "wrong data: rank 2", {2})).state, State::incomplete);
}

Arguments of_one_product(const Folder& folder) {
  Arguments arguments;
  arguments.results = {folder.write("results.json", ResultsBuilder().add(gemm, "tflops", 700).text())};
  arguments.thresholds = folder.write("test.yaml",
                                      "schema: 2\nprofile: test\nmatch: {backend: cuda, device: \"NVIDIA H200\"}\n"
                                      "rules:\n  - {benchmark: \"" +
                                          gemm + "\", metric: tflops, every: rank, min: 620, source: s}\n");
  return arguments;
}

TEST(JudgeAfterTrial, JudgesWhatItsTrialSurvived) {
  const Folder folder;
  EXPECT_EQ(judge_after_trial(of_one_product(folder)).verdict.state, State::pass);
}

TEST(VerdictApart, IsThatOfTheJudgeWithWhatWasSettled) {
  const Folder folder;
  const Arguments arguments = of_one_product(folder);
  const Verdict verdict = verdict_apart(arguments, [](Judged& judged) { judged.verdict.notes = {"settled"}; });
  EXPECT_EQ(verdict.state, State::pass);
  EXPECT_EQ(verdict.notes, std::vector<std::string>{"settled"});
  ASSERT_EQ(verdict.findings.size(), judge(arguments).verdict.findings.size());
  const auto has_rate = [](const Finding& finding) { return finding.key == Key(gemm) && finding.value == 700; };
  EXPECT_TRUE(std::any_of(verdict.findings.begin(), verdict.findings.end(), has_rate));
}

TEST(VerdictApart, IsOfTheRawRowsIfTheJudgeDies) {
  const Folder folder;
  const pid_t self = getpid();
  bool is_settled_here = false;
  const Verdict verdict = verdict_apart(of_one_product(folder), [&](const Judged& judged) {
    const bool is_judge = !judged.profiles.empty();
    if (is_judge && getpid() != self) raise(SIGSEGV);
    is_settled_here = getpid() == self;
  });
  EXPECT_EQ(verdict.state, State::incomplete);
  EXPECT_TRUE(is_settled_here) << "the raw rows are settled in this process";
}

TEST(VerdictApart, ThrowsWhatTheJudgeThrows) {
  Arguments arguments;
  arguments.results = {"/no/results.json"};
  EXPECT_THROW(verdict_apart(arguments, [](const Judged&) {}), InputError);
}

TEST(JudgeAfterTrial, ReadsNoProfileAgainIfItHasThem) {
  const Folder folder;
  Arguments arguments = of_one_product(folder);
  arguments.references = std::make_shared<const GivenReferences>(read_references(arguments));
  std::filesystem::remove(arguments.thresholds);
  EXPECT_EQ(judge_after_trial(arguments).verdict.state, State::pass);
}

}  // namespace
}  // namespace shakedown::judge_apart_test
