// Tests the real programs as users start them: exit code, and last line of stdout and stderr combined.
#include <algorithm>
#include <filesystem>

#include "tests/report/acceptance_program.hpp"

namespace shakedown::acceptance_cli_test {
namespace {

using namespace acceptance_program;
using testing_support::Folder;
using testing_support::ResultsBuilder;

TEST_F(AcceptanceTest, HoldsASitesRulesAgainstTheProfileOfItsGpusOnly) {
  std::filesystem::create_directory(path("rules"));
  folder.write("rules/h.yaml",
               "schema: 2\nprofile: h\nmatch: {backend: cuda, device: \"NVIDIA H200\"}\nrules:\n  - {benchmark: \"" +
                   gemm + "\", metric: tflops, every: rank, min: 620, source: s}\n");
  folder.write("rules/small.yaml",
               "schema: 2\nprofile: small\nmatch: {backend: cuda, device: \"NVIDIA T4\"}\npeak: {bf16_tflops: 65, "
               "tensor_mhz: 1590, source: s}\nrules:\n"
               "  - {benchmark: \"" +
                   gemm + "\", metric: tflops, every: rank, min: 40, source: s}\n");
  folder.write("site.yaml", "schema: 2\nsite: lab\nrules:\n  - {benchmark: \"" + gemm +
                                "\", metric: tflops, every: run, min: 650, source: s}\n");
  const auto of_site = [&](const std::string& results) {
    return run(ACCEPTANCE_TEST " --thresholds=" + path("rules") + " --site=" + path("site.yaml") +
               " --results=" + path(results));
  };
  EXPECT_EQ(of_site("good.json").exit_code, 0) << "65 TFLOPS are the ceiling of another GPU";
  EXPECT_EQ(of_site("bad.json").exit_code, 1);
}

TEST_F(AcceptanceTest, PassesAHealthyMachine) {
  const Outcome outcome = accept_file("good.json");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.last_line, "VERDICT: PASS 8/8 (profile test, 4 ranks)");
  EXPECT_NE(outcome.output.find("[       OK ] gemm.dtype=bf16/m=8192/n=8192/k=8192/tflops"), std::string::npos);
  EXPECT_EQ(outcome.output.find("[  FAILED  ]"), std::string::npos) << outcome.output;
}

TEST_F(AcceptanceTest, FailsASlowRankAndSaysEverythingInTheTest) {
  const Outcome outcome = accept_file("bad.json");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.last_line, "VERDICT: FAIL 7/8 (profile test, 4 ranks)");
  for (const char* part : {"600 TFLOPS, limit min 620", "rank 3 node0 GPU-1003", "test.yaml:5", "source: a paper",
                           "next: mpirun -np 4 build/bench/bench_gemm", "[  FAILED  ] gemm."}) {
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part;
  }
}

TEST_F(AcceptanceTest, LetsNoNameAddALine) {
  const std::string lie = "\nVERDICT: PASS 999/999\n\033[2K";
  const std::string key = "p2p/op:read" + lie + "/src:0/dst:1";
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 600, {700, 700, 700, 600}).add(key, "copy_gb_per_s", 390, {{}, 390, {}, {}});
  for (auto& rank : builder.context.ranks) rank.host += lie;
  folder.write("lie.json", builder.text());
  const auto expect_no_lie = [](const Outcome& outcome) {
    EXPECT_NE(outcome.output.find("PASS 999/999"), std::string::npos) << "the name is shown\n" << outcome.output;
    EXPECT_EQ(outcome.output.find("\nVERDICT: PASS"), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find('\033'), std::string::npos) << outcome.output;
  };
  const auto judge = " report --results=" + path("lie.json") + " --thresholds=" + path("test.yaml");
  expect_no_lie(accept_file("lie.json"));
  expect_no_lie(accept_file("lie.json", "--explain=" + gemm));
  expect_no_lie(run(SHAKEDOWN_PROGRAM + judge));
  expect_no_lie(run(SHAKEDOWN_PROGRAM + judge + " --explain=" + gemm));
}

TEST_F(AcceptanceTest, LetsNoNameTurnTheOrderOfReading) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 600, {700, 700, 700, 600});
  for (auto& rank : builder.context.ranks) rank.host = "node\u202e7\u2028";
  for (auto& host : builder.context.inventory) host.host = "node\u202e7\u2028";
  folder.write("turned.json", builder.text());
  const std::string shown = accept_file("turned.json", "--html=" + path("v.html")).output + text_of("v.html");
  EXPECT_NE(shown.find("node?7?"), std::string::npos);
  for (const char* hidden : {"\u202e", "\u2028"}) EXPECT_EQ(shown.find(hidden), std::string::npos);
}

TEST_F(AcceptanceTest, HidesNoFailureBehindAFilter) {
  const Outcome outcome = accept_file("bad.json", "--gtest_filter='machine.*'");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.last_line, "VERDICT: FAIL 7/8 (profile test, 4 ranks)");
}

TEST_F(AcceptanceTest, RefusesAFilterThatSelectsNothing) {
  expect_refused(accept_file("good.json", "--gtest_filter=nosuch"), "zero tests were selected");
}

TEST_F(AcceptanceTest, RecordsValueAndLimitAsProperties) {
  accept_file("bad.json", "--gtest_output=xml:" + path("junit.xml"));
  const std::string xml = text_of("junit.xml");
  for (const char* part : {"name=\"value\" value=\"600\"", "name=\"limit\" value=\"min 620\"",
                           "name=\"unit\" value=\"TFLOPS\"", "name=\"judgement\" value=\"rule\"", "<failure message=\"",
                           "test.yaml:5", "600 TFLOPS, limit min 620", "rank 3 node0 GPU-1003"}) {
    EXPECT_NE(xml.find(part), std::string::npos) << part;
  }
}

TEST_F(AcceptanceTest, RefusesUnreadableInputWithOneLine) {
  for (const auto& [text, reason] : {std::pair{"", "is empty"},
                                     {"{\"context\":", "cut off"},
                                     {"x y", "not strict JSON"},
                                     {"{\"context\": {\"shakedown\": {\"schema\": 7}}}", "schema: is 7"}}) {
    folder.write("broken.json", text);
    const Outcome outcome = accept_file("broken.json");
    expect_refused(outcome, reason);
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
  folder.write("test.yaml", "schema: 2\nprofile: test\nmatch: {backend: cuda, device: x}\nrulez: []\n");
  expect_refused(accept_file("good.json"), "test.yaml:4:1: unknown key");
}

TEST_F(AcceptanceTest, RefusesBrokenSamples) {
  int samples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SHAKEDOWN_SOURCE_DIR "/tests/data/broken")) {
    const Outcome outcome = run(ACCEPTANCE_TEST " --results=" + entry.path().string());
    EXPECT_EQ(outcome.exit_code, 2) << entry.path();
    EXPECT_EQ(outcome.last_line.rfind("error: ", 0), 0u) << outcome.output;
    EXPECT_NE(outcome.last_line.find(entry.path().filename().string() + ": "), std::string::npos) << outcome.output;
    ++samples;
  }
  EXPECT_GE(samples, 5);
}

TEST_F(AcceptanceTest, RefusesWrongUsage) {
  expect_refused(accept(""), "--results is missing");
  expect_refused(accept_file("good.json", "--nosuch=1"), "unknown flag \"--nosuch=1\"");
  expect_refused(accept_file("good.json", "--gtest_nosuch"), "unknown flag \"--gtest_nosuch\"");
  expect_refused(accept_file("good.json", "stray"), "unknown flag \"stray\"");
  expect_refused(accept_file("good.json", "--families"), "--families: needs a value: --families=A,B");
  expect_refused(accept_file("good.json", "--expect=ranks=many"), "\"many\" is not a number of ranks");
  expect_refused(accept_file("good.json", "--expect=gpus=8"), "--expect: \"gpus=8\" is unknown");
  expect_refused(accept_file("good.json", "--roster=" + path("none")), "none: no such file");
  expect_refused(accept_file("good.json", "--results=" + path("bad.json")), "--results is given twice");
  expect_refused(accept_file("good.json", "--mixed-runs --mixed-runs"), "--mixed-runs is given twice");
  expect_refused(accept_file("good.json", "--nodes=" + path("list")),
                 "acceptance_test does not take it; it is a flag of fleet, nodes");
}

TEST_F(AcceptanceTest, ReadsAFolderAndRefusesAnEmptyOne) {
  const Folder results;
  expect_refused(accept("--results=" + results.path().string()), "no result files");
  results.write("gemm.json", text_of("good.json"));
  results.write("verdict.json", "{}");
  EXPECT_EQ(accept("--results=" + results.path().string()).exit_code, 0);
}

TEST_F(AcceptanceTest, MissesRanksAndHosts) {
  EXPECT_EQ(accept_file("good.json", "--expect=ranks=4,hosts=1").exit_code, 0);
  EXPECT_EQ(accept_file("good.json", "--expect=ranks=8").exit_code, 1);
  EXPECT_EQ(accept_file("good.json", "--expect=backend=host").exit_code, 1);
  EXPECT_EQ(accept_file("good.json", "--run-id=run-1").exit_code, 0);
  const auto other = accept_file("good.json", "--run-id=run-2");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.output.find("run-1, not of run-2"), std::string::npos) << other.output;
  folder.write("hosts", "node0 4\nnode1 4\n");
  const Outcome outcome = accept_file("good.json", "--roster=" + path("hosts"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("not report\n  node1"), std::string::npos);
}

TEST_F(AcceptanceTest, RefusesMixedRunsAndInjectedFaultsUnlessPermitted) {
  ResultsBuilder other;
  other.add(gemm, "tflops", 700).context.run_id = "run-2";
  folder.write("other.json", other.text());
  const std::string both = "--results=" + path("good.json") + "," + path("other.json");
  EXPECT_EQ(accept(both).exit_code, 1);
  EXPECT_EQ(accept(both + " --mixed-runs").exit_code, 0);
  other.context.fault = "slow:10@1";
  folder.write("faulty.json", other.text());
  expect_refused(accept_file("faulty.json"), "injected fault (slow:10@1)");
  EXPECT_EQ(accept_file("faulty.json", "--allow-faults").exit_code, 0);
}

TEST_F(AcceptanceTest, HasNoReferenceForAnUnknownMachine) {
  folder.write("other.json", ResultsBuilder(4, 1, "NVIDIA B200").add(gemm, "tflops", 1500).text());
  const Outcome outcome = accept_file("other.json");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.last_line, "VERDICT: NO REFERENCE 7/8 (profile none, 4 ranks, 0 of 1 families judged)");
  accept_file("other.json", "--verdict=" + path("verdict.json"));
  EXPECT_EQ(run(SHAKEDOWN_PROGRAM " report --verdict=" + path("verdict.json")).last_line, outcome.last_line)
      << "stored";
  EXPECT_NE(outcome.output.find("1500 TFLOPS"), std::string::npos) << "the values are shown";
}

TEST_F(AcceptanceTest, JudgesOneFamily) {
  EXPECT_EQ(accept_file("good.json", "--families=gemm").exit_code, 0);
  EXPECT_EQ(accept_file("good.json", "--families=hbm").exit_code, 1) << "nothing of it was measured";
  EXPECT_EQ(accept_file("good.json", "--families=hbn").exit_code, 2) << "no such family";
}

TEST_F(AcceptanceTest, SkipsForCTestAFamilyThatCouldNotBeMeasuredAndNoOther) {
  folder.write("waived.json", ResultsBuilder()
                                  .add(gemm, "tflops", 700)
                                  .add_error("train_step/model:tiny/batch:1/seq:16", waiver_text("in the full tier"))
                                  .text());
  EXPECT_EQ(accept_file("waived.json", "--families=train_step").exit_code, 3) << "no pass";
  EXPECT_EQ(accept_file("waived.json", "--families=train_step --skip-unmeasured").exit_code, 77);
  EXPECT_EQ(accept_file("waived.json", "--families=gemm --skip-unmeasured").exit_code, 3) << "a part of it";
  EXPECT_EQ(accept_file("waived.json", "--families=gemm --skip-unmeasured --partial-ok").exit_code, 0);
  EXPECT_EQ(accept_file("waived.json", "--families=hbm --skip-unmeasured").exit_code, 1);
}

TEST_F(AcceptanceTest, ExplainsAKeyAndKeepsTheVerdict) {
  const Outcome outcome = accept_file("bad.json", "--explain=" + gemm);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.last_line, "VERDICT: FAIL 7/8 (profile test, 4 ranks)");
  EXPECT_NE(outcome.output.find("600 TFLOPS  rank 3 node0"), std::string::npos);
  expect_refused(accept_file("bad.json", "--explain=nosuch"), "not measured, and without a rule");
}

TEST_F(AcceptanceTest, TakesTheThresholdsOfTheEnvironment) {
  const std::string flag = " --results=" + path("good.json");
  EXPECT_EQ(run("SHAKEDOWN_THRESHOLDS=" + path("test.yaml") + " " ACCEPTANCE_TEST + flag).last_line,
            "VERDICT: PASS 8/8 (profile test, 4 ranks)");
  EXPECT_NE(run(ACCEPTANCE_TEST + flag).output.find("profile h200-sxm"), std::string::npos) << "the source tree's";
}

TEST_F(AcceptanceTest, PrintsHelpAndVersion) {
  for (const std::string program : {ACCEPTANCE_TEST, SHAKEDOWN_PROGRAM " report"}) {
    const Outcome help = run(program + " --help");
    EXPECT_EQ(help.exit_code, 0);
    for (const char* flag : {"--results", "--thresholds", "--families", "--baseline", "--verdict", "--roster",
                             "--expect", "--mixed-runs", "--explain"}) {
      EXPECT_NE(help.output.find(flag), std::string::npos) << program << " " << flag;
    }
    EXPECT_EQ(run(program + " --version").exit_code, 0);
  }
}

TEST_F(AcceptanceTest, ColoursByFlagAndEnvironmentOnly) {
  const auto coloured = [&](const std::string& environment, const std::string& flags) {
    const std::string command = "env -u NO_COLOR -u CLICOLOR_FORCE " + environment +
                                " " ACCEPTANCE_TEST " --thresholds=" + path("test.yaml") +
                                " --results=" + path("bad.json") + " " + flags;
    return run(command).output.find('\033') != std::string::npos;
  };
  EXPECT_FALSE(coloured("", "")) << "in a pipe";
  EXPECT_TRUE(coloured("", "--color"));
  EXPECT_TRUE(coloured("CLICOLOR_FORCE=1", ""));
  EXPECT_FALSE(coloured("CLICOLOR_FORCE=1 NO_COLOR=1", ""));
  EXPECT_TRUE(coloured("NO_COLOR=1", "--color=yes")) << "the flag overrides the variable";
  EXPECT_FALSE(coloured("CLICOLOR_FORCE=1", "--color=no"));
  expect_refused(accept_file("good.json", "--color=maybe"), "'maybe' is not one of yes, no");
}

TEST_F(AcceptanceTest, TakesHostNamesWithDotsAndOtherLetters) {
  ResultsBuilder builder;
  for (auto& rank : builder.context.ranks) rank.host = "gpu-7.r\u00e4ck-2.\u4e2d\u5fc3.example";
  for (auto& host : builder.context.inventory) host.host = builder.context.ranks[0].host;
  builder.add(gemm, "tflops", 600, {700, 700, 700, 600}).repeated();
  folder.write("named.json", builder.text());
  folder.write("hosts", builder.context.ranks[0].host + " 4\n");
  const Outcome outcome = accept_file("named.json", "--roster=" + path("hosts") + " --prometheus=" + path("v.prom") +
                                                        " --markdown=" + path("v.md") + " --verdict=" + path("v.json") +
                                                        " --gtest_output=xml:" + path("junit.xml"));
  EXPECT_EQ(outcome.last_line, "VERDICT: FAIL 6/7 (profile test, 4 ranks)") << "the roster says how many there are";
  for (const char* file : {"v.md", "v.json", "junit.xml"}) {
    EXPECT_NE(text_of(file).find(builder.context.ranks[0].host), std::string::npos) << file;
  }
}

TEST_F(AcceptanceTest, RefusesRanksThatAreThereTwiceOrNotAtAll) {
  auto document = nlohmann::json::parse(text_of("good.json"));
  auto& ranks = document["context"]["shakedown"]["ranks"];
  const auto whole = ranks;
  ranks[2]["rank"] = 1;
  folder.write("twice.json", document.dump());
  expect_refused(accept_file("twice.json"), "twice.json: context.shakedown.ranks: lists rank 1 twice");
  ranks = whole;
  ranks[1]["rank"] = 7;
  folder.write("hole.json", document.dump());
  expect_refused(accept_file("hole.json"), "hole.json: context.shakedown.ranks: does not list rank 1");
  ranks = whole;
  ranks.erase(2);
  folder.write("short.json", document.dump());
  expect_refused(accept_file("short.json"), "short.json: context.shakedown.ranks: lists 3 of 4 ranks");
}

TEST_F(AcceptanceTest, RefusesABenchmarkThatStandsTwice) {
  auto document = nlohmann::json::parse(text_of("good.json"));
  document["benchmarks"].push_back(document["benchmarks"][0]);
  folder.write("twice.json", document.dump());
  expect_refused(accept_file("twice.json"), gemm + " appears twice with repetition_index 0");
}

TEST_F(AcceptanceTest, JudgesWhatRanksLoseInCompany) {
  folder.write("alone.json", ResultsBuilder(1).add(gemm, "tflops", 900).text());
  const Outcome outcome = accept_file("good.json", "--scaling=" + path("alone.json"));
  EXPECT_EQ(outcome.exit_code, 1) << "700 of 900 is 0.78";
  EXPECT_NE(outcome.output.find("1 rank 900 TFLOPS (100.0 %), 4 ranks 700 TFLOPS (77.8 %)"), std::string::npos)
      << outcome.output;
}

TEST_F(ShakedownProgram, ReportsWhatAcceptanceTestJudged) {
  const std::string results = "--thresholds=" + path("test.yaml") + " --results=" + path("bad.json");
  const Outcome judged = shakedown("report " + results + " --verdict=" + path("verdict.json"));
  EXPECT_EQ(judged.exit_code, 1);
  EXPECT_EQ(judged.last_line, "VERDICT: FAIL 7/8 (profile test, 4 ranks)");
  const Outcome stored = shakedown("report --verdict=" + path("verdict.json"));
  EXPECT_EQ(stored.exit_code, 1);
  const std::string note = "note: from a stored verdict; the results next to it are those that were judged\n";
  const auto at = stored.output.find(note);
  ASSERT_NE(at, std::string::npos) << stored.output;
  EXPECT_EQ(std::string(stored.output).erase(at, note.size()), judged.output);
  EXPECT_NE(accept_file("bad.json").output.find(judged.output), std::string::npos) << "the same table";
}

TEST_F(ShakedownProgram, EndsAReportOfUnreadableInputWithAnErrorAndNoVerdict) {
  folder.write("broken.json", "x y");
  expect_refused(shakedown("report --results=" + path("broken.json")), "not strict JSON");
  expect_refused(shakedown("report --verdict=" + path("none.json")), "none.json");
  expect_refused(shakedown("report --nosuch"), "unknown flag");
}

TEST_F(ShakedownProgram, ListsWhatNoRuleJudgesWithAll) {
  folder.write("more.json",
               ResultsBuilder().add(gemm, "tflops", 700).add("gemm/dtype:f16/m:1/n:1/k:1", "tflops", 5).text());
  accept_file("more.json", "--verdict=" + path("verdict.json"));
  const std::string listed = "\ngemm/dtype:f16/m:1/n:1/k:1 tflops  5 TFLOPS\n";
  const std::string counted = "\n1 measured value is judged by no rule: --all lists them\n";
  for (const bool all : {false, true}) {
    const std::string flag = all ? " --all" : "";
    for (const Outcome& outcome :
         {accept_file("more.json", flag), shakedown("report --verdict=" + path("verdict.json") + flag)}) {
      EXPECT_EQ(outcome.output.find(all ? counted : listed), std::string::npos) << outcome.output;
      EXPECT_NE(outcome.output.find(all ? listed : counted), std::string::npos) << outcome.output;
    }
  }
  expect_refused(accept_file("more.json", "--all=yes"), "--all: takes no value");
}

TEST_F(ShakedownProgram, RefusesAFlagThatTheVerbWouldIgnore) {
  accept_file("good.json", "--verdict=" + path("verdict.json"));
  const auto results = " --results=" + path("good.json"), baseline = " --baseline=" + path("good.json");
  for (const auto& [words, reason] : std::vector<std::pair<std::string, std::string>>{
           {"report --scontrol" + results, "--scontrol: report does not take it; it is a flag of fleet, nodes"},
           {"report --min-effect=0.1" + results,
            "--min-effect: report does not take it; it is a flag of compare, regress"},
           {"report --skip-unmeasured" + results, "it is a flag of acceptance_test"},
           {"nodes --explain=gemm" + results, "it is a flag of acceptance_test, report"},
           {"regress --site=x" + results + baseline, "--site: regress does not take it"},
           {"archive --html=x" + results, "--html: archive does not take it"},
           {"baseline show --results=x" + baseline, "--results: baseline show does not take it"},
           {"baseline create --tolerance=0.1 --out=x" + results, "--tolerance: baseline create does not take it"},
           {"baseline create --margin=0.1 --out=x" + results, "--margin needs --floors"},
           {"accept --explain=gemm", "--explain: accept does not take it"},
           {"accept --run-id=x", "--run-id: accept does not take it"},
           {"measure --html=x", "--html: measure does not take it"},
           {"measure --for=1m", "--for: measure does not take it; it is a flag of accept"},
           {"report --expect=ranks=4 --verdict=" + path("verdict.json"), "has no effect on a stored verdict"},
           {"nodes --site=x --verdict=" + path("verdict.json"), "has no effect on a stored verdict"}}) {
    const Outcome outcome = shakedown(words);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_NE(outcome.output.find(reason), std::string::npos) << words << ": " << outcome.output;
  }
}

TEST_F(ShakedownProgram, RefusesWrongUsage) {
  for (const char* words : {"", "nosuch", "report", "report --nosuch", "regress", "--results=x"}) {
    EXPECT_EQ(shakedown(words).exit_code, 2) << words;
  }
}

}  // namespace
}  // namespace shakedown::acceptance_cli_test
