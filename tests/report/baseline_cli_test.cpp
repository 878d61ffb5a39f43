// Tests the programs with baselines: they make, merge, show, store and compare them.
#include <algorithm>
#include <filesystem>

#include "tests/report/acceptance_program.hpp"

namespace shakedown::baseline_cli_test {
namespace {

using namespace acceptance_program;
using testing_support::ResultsBuilder;

class Baselines : public ShakedownProgram {};

TEST_F(Baselines, HoldsResultsAgainstABaseline) {
  write_results("fast.json", 800);
  EXPECT_EQ(accept_file("good.json", "--baseline=" + path("good.json")).exit_code, 0);
  const Outcome slower = accept_file("good.json", "--baseline=" + path("fast.json"));
  EXPECT_EQ(slower.exit_code, 1);
  EXPECT_NE(slower.output.find("tflops_vs_baseline"), std::string::npos);
  EXPECT_EQ(accept_file("good.json", "--tolerance=0.2 --baseline=" + path("fast.json")).exit_code, 0);
}

TEST_F(Baselines, RefusesABaselineWithAnInjectedFaultUnlessPermitted) {
  ResultsBuilder faulty;
  faulty.add(gemm, "tflops", 100).context.fault = "slow:10@1";
  folder.write("faulty.json", faulty.text());
  expect_refused(accept_file("good.json", "--baseline=" + path("faulty.json")), "injected fault (slow:10@1)");
  EXPECT_EQ(accept_file("good.json", "--allow-faults --baseline=" + path("faulty.json")).exit_code, 0);
}

TEST_F(Baselines, RefusesABaselineThatIsNone) {
  const auto refused = [&](const std::string& text, const std::string& reason) {
    folder.write("base.json", text);
    expect_refused(accept_file("good.json", "--baseline=" + path("base.json")), reason);
    EXPECT_EQ(text_of("base.json"), text) << "not touched";
  };
  refused("", "base.json: is empty");
  refused("{\"baseline\": {\"schema\": 3}}", "base.json: baseline.schema: is 3, this program reads 2");
}

TEST_F(Baselines, LeavesTheVerdictOpenWhereTheBaselineIsOfAnotherConfiguration) {
  folder.write("base.json", ResultsBuilder(2).add(gemm, "tflops", 700).text());
  const std::string baseline = "--baseline=" + path("base.json");
  const Outcome good = accept_file("good.json", baseline);
  EXPECT_EQ(good.exit_code, 3);
  EXPECT_NE(good.output.find("not compared: ranks is 4, "), std::string::npos) << good.output;
  EXPECT_EQ(good.last_line.rfind("VERDICT: INCONCLUSIVE 8/9", 0), 0u) << good.last_line;
  const Outcome bad = accept_file("bad.json", baseline);
  EXPECT_EQ(bad.exit_code, 1) << "the machine's own verdict";
  folder.write("base.json", ResultsBuilder(4).add(gemm, "tflops", 700).text());
  EXPECT_EQ(accept_file("good.json", baseline).exit_code, 0);
  auto driver = ResultsBuilder(4).add(gemm, "tflops", 700);
  driver.context.versions["driver"] = "570.1";
  folder.write("base.json", driver.text());
  EXPECT_EQ(accept_file("good.json", baseline).exit_code, 3);
  EXPECT_EQ(accept_file("good.json", baseline + " --allow-different").exit_code, 0);
}

TEST_F(Baselines, Regresses) {
  folder.write("before.json", repeated(700).text());
  folder.write("after.json", repeated(680).text());
  const auto regress = [&](const std::string& now, const std::string& before) {
    return shakedown("regress --results=" + path(now) + " --baseline=" + path(before));
  };
  EXPECT_EQ(regress("before.json", "before.json").exit_code, 0);
  const Outcome worse = regress("after.json", "before.json");
  EXPECT_EQ(worse.exit_code, 1);
  EXPECT_EQ(worse.last_line, "REGRESSION: 1 worse, 0 missing, 0 inconclusive, 1 compared (minimal effect 1 %): " +
                                 gemm + " tflops -2.9 %");
  folder.write("near.json", repeated(690).text());
  EXPECT_EQ(regress("near.json", "before.json").exit_code, 3) << "1.4 % of one launch";
  EXPECT_EQ(
      shakedown("regress --min-effect=0.05 --results=" + path("after.json") + " --baseline=" + path("before.json"))
          .exit_code,
      0);
}

TEST_F(Baselines, KeepsAStoreOfAcceptedRunsThatDoNotBecomeSlower) {
  const auto night = [&](const std::string& id, double tflops) {
    auto builder = repeated(tflops);
    builder.context.run_id = id;
    builder.context.started = "2026-11-2" + id + "T03:00:00Z";
    folder.write("night.json", builder.text());
    return shakedown("regress --thresholds=" + path("test.yaml") + " --results=" + path("night.json") +
                     " --store=" + path("store"));
  };
  const auto noted = [](const Outcome& outcome, const std::string& text) {
    EXPECT_NE(outcome.output.find(text), std::string::npos) << text << "\n" << outcome.output;
  };
  const Outcome first = night("1", 700);
  EXPECT_EQ(first.exit_code, 0);
  noted(first, "no earlier run of this kind of machine");
  noted(night("2", 700.5), "which has 2 runs now");
  noted(night("2", 700.5), "which has 2 runs now");
  const Outcome slow = night("3", 630);
  EXPECT_EQ(slow.exit_code, 1);
  noted(slow, "not added to");
  noted(slow, "a figure is worse or missing");
  noted(night("4", 550), "the verdict of the run is FAIL");
  noted(night("5", 700.7), "which has 3 runs now");
}

TEST_F(Baselines, DoesNotBeginAStoreWithARunThatFails) {
  const Outcome failed = shakedown("regress --thresholds=" + path("test.yaml") + " --results=" + path("bad.json") +
                                   " --store=" + path("store"));
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(path("store")));
}

TEST_F(Baselines, WritesWhyItCouldNotCompare) {
  folder.write("broken.json", "x y");
  folder.write("before.json", repeated(700).text());
  const std::string outputs = " --json=" + path("r.json") + " --junit=" + path("r.xml") + " --html=" + path("r.html");
  const Outcome outcome =
      shakedown("regress --results=" + path("broken.json") + " --baseline=" + path("before.json") + outputs);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(text_of("r.json").find("not strict JSON"), std::string::npos);
  EXPECT_NE(text_of("r.xml").find("<error "), std::string::npos);
  EXPECT_NE(text_of("r.html").find("\"exit_code\":2"), std::string::npos);
}

TEST_F(Baselines, ComparesAnotherMachineOnlyIfAskedAndSaysSo) {
  folder.write("before.json", repeated(700).text());
  auto other = repeated(700);
  other.context.versions["driver"] = "570.1";
  folder.write("other.json", other.text());
  folder.write("two.json", ResultsBuilder(2).add(gemm, "tflops", 700).text());
  const std::string words = " --baseline=" + path("before.json");
  EXPECT_EQ(shakedown("regress --results=" + path("two.json") + words).exit_code, 2);
  const Outcome refused = shakedown("regress --results=" + path("other.json") + words);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.output.find("driver is 570.1, "), std::string::npos);
  const Outcome asked = shakedown("regress --allow-different --results=" + path("other.json") + words);
  EXPECT_EQ(asked.exit_code, 0);
  EXPECT_NE(asked.output.find("note: compared although driver "), std::string::npos);
}

TEST_F(Baselines, RefusesToCompareAnInjectedFaultUnlessPermitted) {
  folder.write("before.json", repeated(700).text());
  auto faulty = repeated(700);
  faulty.context.fault = "slow:10@1";
  folder.write("faulty.json", faulty.text());
  for (const auto& [now, before] : {std::pair{"before.json", "faulty.json"}, {"faulty.json", "before.json"}}) {
    const std::string words = "regress --results=" + path(now) + " --baseline=" + path(before);
    const Outcome refused = shakedown(words);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.output.find("injected fault (slow:10@1)"), std::string::npos);
    EXPECT_EQ(shakedown(words + " --allow-faults").exit_code, 0);
  }
}

TEST_F(Baselines, CreatesMergesAndShowsBaselines) {
  for (const char* run_id : {"a", "b", "c"}) {
    auto builder = repeated(700);
    builder.context.run_id = run_id;
    folder.write(std::string(run_id) + ".json", builder.text());
  }
  const auto create = [&](const std::string& files, const std::string& out) {
    return shakedown("baseline create --results=" + files + " --out=" + path(out) + " --floors=" + path("floors.yaml"));
  };
  const Outcome created = create(path("a.json") + "," + path("b.json"), "ab");
  EXPECT_EQ(created.exit_code, 0) << created.output;
  EXPECT_NE(created.output.find("BASELINE: 1 benchmarks, 2 launches, 0 values left out (4 ranks)"), std::string::npos);
  const std::string stored = path("ab/h200-sxm/4ranks");
  EXPECT_EQ(shakedown("baseline show --baseline=" + stored).exit_code, 0);
  EXPECT_EQ(create(path("c.json"), "c").exit_code, 0);
  const Outcome merged = shakedown("baseline merge --baseline=" + stored + "," +
                                   path("c/h200-sxm/4ranks/baseline.json") + " --out=" + path("all"));
  EXPECT_NE(merged.output.find("1 benchmarks, 3 launches"), std::string::npos) << merged.output;
  EXPECT_EQ(accept_file("good.json", "--baseline=" + path("all/h200-sxm/4ranks")).exit_code, 0);
  EXPECT_EQ(run(ACCEPTANCE_TEST " --results=" + path("good.json") + " --thresholds=" + path("floors.yaml")).exit_code,
            0)
      << "the floors accept the machine that they came from";
}

TEST_F(Baselines, RefusesABaselineThatItCannotMake) {
  const auto refused = [&](const std::string& words, const std::string& reason) {
    const Outcome outcome = shakedown("baseline " + words);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_NE(outcome.output.find(reason), std::string::npos) << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  };
  refused("", "write baseline create, merge or show");
  refused("nosuch", "unknown action \"nosuch\"");
  refused("create --results=" + path("good.json"), "needs --out or --floors");
  refused("create --out=x", "needs --results");
  refused("merge --out=x --baseline=" + path("good.json"), "needs two or more --baseline");
  refused("show", "needs --baseline");
  refused("show --out=x --baseline=" + path("good.json"), "stores nothing");
  folder.write("h200-sxm", "in the way");
  const Outcome unwritten =
      shakedown("baseline create --out=" + folder.path().string() + " --results=" + path("good.json"));
  EXPECT_EQ(unwritten.exit_code, 3);
  EXPECT_NE(unwritten.output.find("h200-sxm"), std::string::npos) << unwritten.output;
}

}  // namespace
}  // namespace shakedown::baseline_cli_test
