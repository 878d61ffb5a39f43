// Tests shakedown claim: GPUs, figures, hours and money of a failed run, and when there is nothing to claim.
#include <filesystem>

#include "tests/report/acceptance_program.hpp"

namespace shakedown::claim_test {
namespace {

using namespace acceptance_program;

class Claim : public AcceptanceTest {
 protected:
  Outcome shakedown(const std::string& words) const {
    return run(SHAKEDOWN_PROGRAM " " + words + " --thresholds=" + path("test.yaml"));
  }
  Outcome claim(const std::string& flags) const { return shakedown("claim " + flags); }

  /// Results of a run at this time, in which one GPU of four has this rate.
  std::string run_at(double tflops, const std::string& id, const std::string& time) const {
    ResultsBuilder builder;
    builder.context.run_id = id;
    builder.context.started = time;
    folder.write(id + ".json", builder.add(gemm, "tflops", tflops, {700, 700, 700, tflops}).repeated().text());
    return path(id + ".json");
  }
};

TEST_F(Claim, NamesFigureLimitAndItsSourceAndTheHoursOfEachGpu) {
  const auto failed = run_at(600, "first", "2026-11-01T00:00:00Z");
  std::filesystem::create_directory(path("ledger"));
  for (const auto& file :
       {failed, run_at(600, "second", "2026-11-03T00:00:00Z"), run_at(700, "third", "2026-11-04T12:00:00Z")}) {
    ASSERT_EQ(shakedown("ledger add --ledger=" + path("ledger") + " --results=" + file).exit_code, 0);
  }
  const Outcome outcome = claim("--results=" + failed + " --ledger=" + path("ledger") + " --price=2.5");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("600 TFLOPS | min 620 | 3.2 % | a paper |"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("| 2 | 2026-11-04T12:00:00Z (run third) | 48.0 | 84.0 |"), std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find("At 2.50 for a GPU-hour: 120.00 proven, at most 210.00"), std::string::npos)
      << outcome.output;
}

TEST_F(Claim, NeedsNeitherALedgerNorAPrice) {
  const Outcome outcome = claim("--results=" + run_at(600, "first", "2026-11-01T00:00:00Z"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("no good run yet | 0.0 |"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("for a GPU-hour"), std::string::npos) << outcome.output;
}

TEST_F(Claim, NamesWrongDataWhichMissesNoLimit) {
  folder.write("wrong.json", repeated(700).add_error(gemm, "wrong data", {2}).text());
  const Outcome outcome = claim("--results=" + path("wrong.json"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("## Faults"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("## Figures"), std::string::npos) << outcome.output;
}

TEST_F(Claim, NamesAFigureWhoseLimitIsZero) {
  const std::string facts = "preflight/of:gpu";
  folder.write("test.yaml",
               "schema: 2\nprofile: test\nmatch: {backend: cuda, device: \"NVIDIA H200\"}\nrules:\n  - {benchmark: \"" +
                   facts + "\", metric: ecc_uncorrected, every: rank, equals: 0, source: \"a paper\"}\n");
  ResultsBuilder builder;
  builder.context.run_id = "first";
  builder.context.started = "2026-11-01T00:00:00Z";
  folder.write("run.json", builder.add_facts(facts, {{"ecc_uncorrected", {0, 0, 3, 0}}}, {}).text());
  const Outcome outcome = claim("--results=" + path("run.json"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("| 3 | equals 0 | - | a paper |"), std::string::npos) << outcome.output;
}

TEST_F(Claim, IsRefusedIfTheVerdictIsNotFail) {
  const Outcome outcome = claim("--results=" + path("good.json"));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.last_line, "shakedown: claim: the verdict is PASS: there is nothing to claim");
}

TEST_F(Claim, RefusesAPriceThatIsNotPositive) {
  for (const char* const price : {"0", "-1", "x", "nan"}) {
    expect_refused(claim("--results=" + path("bad.json") + " --price=" + price), "--price");
  }
}

}  // namespace
}  // namespace shakedown::claim_test
