// Tests the programs with a judge that crashes.
#include <nlohmann/json.hpp>

#include "tests/report/acceptance_program.hpp"

namespace shakedown::dying_judge_test {
namespace {

using namespace acceptance_program;
using testing_support::ResultsBuilder;

class DyingJudgeTest : public AcceptanceTest {
 protected:
  Outcome dying(const std::string& program, const std::string& name, const std::string& flags = "") const {
    return run("LD_PRELOAD=" DYING_JUDGE " " + program + " --thresholds=" + path("test.yaml") +
               " --results=" + path(name) + " " + flags);
  }
  void write_error(const std::string& name, const std::string& message, const std::vector<int>& wrong_ranks) const {
    ResultsBuilder builder;
    builder.add(gemm, "tflops", 700).add_error("hbm/op:read/engine:sm/bytes:4294967296", message, wrong_ranks);
    folder.write(name, builder.text());
  }
};

TEST_F(DyingJudgeTest, EndsIncompleteWithTheErrorsOfTheRows) {
  write_error("ours.json", "cannot make a file: disk full", {});
  folder.write("junit.xml", "old");
  folder.write("verdict.json", "old");
  for (const char* const program : {ACCEPTANCE_TEST, SHAKEDOWN_PROGRAM " report"}) {
    const Outcome outcome =
        dying(program, "ours.json", "--junit=" + path("junit.xml") + " --verdict=" + path("verdict.json"));
    EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
    EXPECT_EQ(outcome.last_line, "VERDICT: INCOMPLETE 0/2 (profile none, 4 ranks)");
    EXPECT_NE(outcome.output.find("the judge died of SIGSEGV, results kept"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("cannot make a file: disk full"), std::string::npos) << outcome.output;
    const auto verdict = nlohmann::json::parse(text_of("verdict.json"));
    EXPECT_EQ(verdict["verdict"], "incomplete");
    EXPECT_EQ(verdict["findings"].size(), 2u);
    EXPECT_NE(text_of("junit.xml").find("SIGSEGV"), std::string::npos);
  }
}

TEST_F(DyingJudgeTest, FailsForWrongDataAndForAnErrorOfTheDevice) {
  write_error("wrong.json", "wrong data: rank 2: 5 of 9 elements differ", {2});
  write_error("device.json", "cuda/hbm.cpp:12 in copy: out of memory (cudaErrorMemoryAllocation, 2)", {});
  for (const char* const name : {"wrong.json", "device.json"}) {
    for (const char* const program : {ACCEPTANCE_TEST, SHAKEDOWN_PROGRAM " report"}) {
      const Outcome outcome = dying(program, name);
      EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
      EXPECT_EQ(outcome.last_line, "VERDICT: FAIL 0/2 (profile none, 4 ranks)");
    }
  }
}

TEST_F(DyingJudgeTest, LeavesNodesUndecidedButThoseOfWrongData) {
  write_error("wrong.json", "wrong data: rank 2: 5 of 9 elements differ", {2});
  const auto decided = [&](const std::string& name, int exit_code) {
    const Outcome outcome = dying(SHAKEDOWN_PROGRAM " nodes", name, "--nodes=" + path("nodes"));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
    return nlohmann::json::parse(text_of("nodes/nodes.json"))["nodes"][0]["state"].get<std::string>();
  };
  EXPECT_EQ(decided("good.json", 3), "undecided");
  EXPECT_EQ(decided("wrong.json", 1), "bad");
}

TEST_F(DyingJudgeTest, EndsIncompleteWhereAKeyWasToBeExplained) {
  for (const char* const program : {ACCEPTANCE_TEST, SHAKEDOWN_PROGRAM " report"}) {
    EXPECT_EQ(dying(program, "good.json", "--explain=" + gemm).exit_code, 3);
  }
}

}  // namespace
}  // namespace shakedown::dying_judge_test
