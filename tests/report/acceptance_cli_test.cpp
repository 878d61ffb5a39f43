// Tests the real programs as users start them: exit code, last line of stdout and stderr combined, files.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <tuple>

#include "report/verdict_json.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown::acceptance_cli_test {
namespace {

using testing_support::Folder;
using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr combined, in order
  std::string last_line;
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  const auto end = outcome.output.find_last_not_of('\n');
  const auto begin = end == std::string::npos ? end : outcome.output.rfind('\n', end);
  if (end != std::string::npos) {
    const auto first = begin == std::string::npos ? 0 : begin + 1;
    outcome.last_line = outcome.output.substr(first, end + 1 - first);
  }
  return outcome;
}

class AcceptanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder.write("test.yaml",
                 "schema: 2\nprofile: test\nmatch: {backend: cuda, device: \"NVIDIA H200\"}\nrules:\n"
                 "  - {benchmark: \"" +
                     gemm +
                     "\", metric: tflops, every: rank, min: 620, source: \"a paper\"}\n"
                     "  - {benchmark: \"" +
                     gemm + "\", metric: samples, every: run, min: 5, source: s, severity: warn}\n");
    write_results("good.json", 700);
    write_results("bad.json", 600);
  }

  void write_results(const std::string& name, double tflops) const {
    folder.write(name, ResultsBuilder().add(gemm, "tflops", tflops, {700, 700, 700, tflops}).repeated().text());
  }
  static ResultsBuilder repeated(double tflops) {
    ResultsBuilder builder;
    for (int i = 0; i < 9; ++i) builder.add(gemm, "tflops", tflops * (1 + 1e-4 * i));
    return builder;
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  std::string text_of(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Outcome accept(const std::string& flags) const {
    return run(ACCEPTANCE_TEST " --thresholds=" + path("test.yaml") + " " + flags);
  }
  Outcome accept_file(const std::string& name, const std::string& flags = "") const {
    return accept("--results=" + path(name) + " " + flags);
  }
  static void expect_refused(const Outcome& outcome, const std::string& reason) {
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.last_line.rfind("error: ", 0), 0u) << outcome.output;
    EXPECT_NE(outcome.last_line.find(reason), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find("VERDICT:"), std::string::npos) << "a file that cannot be read has no verdict";
  }

  static void expect_unwritten(const Outcome& outcome, int code, const std::string& state, const std::string& reason) {
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_NE(outcome.output.find(reason), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.last_line.rfind("VERDICT: " + state, 0), 0u) << outcome.output;
  }

  const Folder folder;
};

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

// The programs, with a judge that crashes.
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
    EXPECT_NE(text_of("junit.xml").find("the judge died"), std::string::npos);
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

TEST_F(AcceptanceTest, SaysWhenItsOutputIsLost) {
  const auto judged = " --results=" + path("good.json") + " --thresholds=" + path("test.yaml");
  for (const std::string lost : {">/dev/full", ">&-"}) {
    for (const auto& command : {ACCEPTANCE_TEST + judged, ACCEPTANCE_TEST + judged + " --explain=" + gemm,
                                SHAKEDOWN_PROGRAM " report" + judged, SHAKEDOWN_PROGRAM " nodes" + judged,
                                SHAKEDOWN_PROGRAM " regress" + judged + " --baseline=" + path("good.json"),
                                SHAKEDOWN_PROGRAM " baseline show --baseline=" + path("good.json"),
                                std::string(SHAKEDOWN_PROGRAM " --help")}) {
      const auto outcome = run("sh -c '" + command + " 2>" + path("said") + " " + lost + "'");
      EXPECT_EQ(outcome.exit_code, 3) << command << " " << lost;
      EXPECT_NE(text_of("said").find("standard output: cannot be written"), std::string::npos) << command << lost;
    }
  }
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

TEST_F(AcceptanceTest, WritesTheVerdict) {
  accept_file("bad.json", "--verdict=" + path("verdict.json"));
  EXPECT_NE(text_of("verdict.json").find("\"verdict\": \"fail\""), std::string::npos);
}

TEST_F(AcceptanceTest, LeavesNoOldVerdictWhenInputCannotBeRead) {
  folder.write("verdict.json", "{\"verdict\": \"pass\"}");
  expect_refused(accept_file("none.json", "--verdict=" + path("verdict.json")), "none.json: no such file");
  EXPECT_NE(text_of("verdict.json").find("\"verdict\": \"incomplete\""), std::string::npos);
  folder.write("verdict.json", "{\"verdict\": \"pass\"}");
  accept_file("good.json", "--nosuch --verdict=" + path("verdict.json"));
  EXPECT_NE(text_of("verdict.json").find("\"verdict\": \"incomplete\""), std::string::npos) << "whatever was wrong";
}

TEST_F(AcceptanceTest, TakesThePassAndNotTheFailureWhereAnOutputCannotBeWritten) {
  const auto nowhere = "--verdict=" + path("no/verdict.json");
  expect_unwritten(accept_file("good.json", nowhere), 3, "PASS", "verdict.json: cannot be written: No such file");
  expect_unwritten(accept_file("bad.json", nowhere), 1, "FAIL", "verdict.json: cannot be written: No such file");
  const auto report = [&](const std::string& name) {
    return run(SHAKEDOWN_PROGRAM " report --thresholds=" + path("test.yaml") + " --results=" + path(name) + " " +
               nowhere);
  };
  expect_unwritten(report("good.json"), 3, "PASS", "verdict.json: cannot be written: No such file");
  expect_unwritten(report("bad.json"), 1, "FAIL", "verdict.json: cannot be written: No such file");
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
  EXPECT_NE(other.output.find("good.json is of run run-1, not of run-2"), std::string::npos) << other.output;
  folder.write("hosts", "node0 4\nnode1 4\n");
  const Outcome outcome = accept_file("good.json", "--roster=" + path("hosts"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("hosts of the roster that did not report\n  node1"), std::string::npos);
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

TEST_F(AcceptanceTest, WritesNoReportOverItsInput) {
  const std::string before = text_of("good.json");
  std::filesystem::create_directory(folder.path() / "run");
  folder.write("run/gemm.json", before);
  for (const std::string& results : {path("good.json"), path("run")}) {
    const std::string own = results == path("run") ? path("run/gemm.json") : results;
    expect_refused(run(ACCEPTANCE_TEST " --results=" + results + " --html=" + own), "--html: the file is input");
    expect_refused(run(ACCEPTANCE_TEST " --results=" + results + " --nosuch --junit=" + own), "--nosuch");
  }
  EXPECT_EQ(text_of("good.json"), before);
  EXPECT_EQ(text_of("run/gemm.json"), before);
  EXPECT_EQ(accept_file("run", "--html=" + path("run/page.html")).exit_code, 0) << "a new file there is none of them";
}

TEST_F(AcceptanceTest, RefusesTwoReportsIntoOneFile) {
  expect_refused(accept_file("good.json", "--junit=" + path("both") + " --markdown=" + path("both")),
                 "--junit and --markdown name the same file");
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

TEST_F(AcceptanceTest, HoldsResultsAgainstABaseline) {
  write_results("fast.json", 800);
  EXPECT_EQ(accept_file("good.json", "--baseline=" + path("good.json")).exit_code, 0);
  const Outcome slower = accept_file("good.json", "--baseline=" + path("fast.json"));
  EXPECT_EQ(slower.exit_code, 1);
  EXPECT_NE(slower.output.find("tflops_vs_baseline"), std::string::npos);
  EXPECT_EQ(accept_file("good.json", "--tolerance=0.2 --baseline=" + path("fast.json")).exit_code, 0);
}

TEST_F(AcceptanceTest, RefusesABaselineWithAnInjectedFaultUnlessPermitted) {
  ResultsBuilder faulty;
  faulty.add(gemm, "tflops", 100).context.fault = "slow:10@1";
  folder.write("faulty.json", faulty.text());
  expect_refused(accept_file("good.json", "--baseline=" + path("faulty.json")), "injected fault (slow:10@1)");
  EXPECT_EQ(accept_file("good.json", "--allow-faults --baseline=" + path("faulty.json")).exit_code, 0);
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

TEST_F(AcceptanceTest, WritesEveryForm) {
  const Outcome outcome =
      accept_file("bad.json", "--verdict=" + path("v.json") + " --markdown=" + path("v.md") +
                                  " --prometheus=" + path("v.prom") + " --github-benchmark=" + path("g.json") +
                                  " --html=" + path("v.html") + " --junit=" + path("v.xml") +
                                  " --superbench=" + path("s.jsonl") + " --bencher=" + path("b.json"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(text_of("v.html").find("\"peers\":["), std::string::npos) << "figures, too";
  EXPECT_NE(text_of("v.xml").find("<failure type=\"fail\" message=\"FAIL node0 GPU 3 "), std::string::npos);
  EXPECT_EQ(text_of("s.jsonl").rfind("{\"node\":\"node0\"", 0), 0u);
  EXPECT_NE(text_of("b.json").find("\"lower_value\""), std::string::npos);
  EXPECT_NE(text_of("v.json").find("\"verdict\": \"fail\""), std::string::npos);
  EXPECT_EQ(text_of("v.md").rfind("## FAIL node0 GPU 3 ", 0), 0u);
  EXPECT_NE(text_of("v.prom").find("shakedown_pass{profile=\"test\"} 0"), std::string::npos);
  EXPECT_NE(text_of("g.json").find("\"unit\": \"TFLOPS\""), std::string::npos);
}

TEST_F(AcceptanceTest, ExportsOfASoakHoldTheFiguresOfItsLastCompleteRound) {
  const SoakPlan plan{"watch-1", "2026-11-22T12:00:00Z", 3600, 7, {"gemm"}, Tier::quick};
  std::string lines = soak_line(plan);
  for (const auto& [state, tflops] :
       {std::pair{State::pass, 700.0}, {State::pass, 710.0}, {State::incomplete, 720.0}}) {
    SoakRound round;
    round.number = static_cast<int>(tflops - 690) / 10;
    round.started = plan.started;
    round.state = state;
    lines += soak_line(round);
    const std::string id = "watch-1-00000" + std::to_string(round.number);
    std::filesystem::create_directories(path("watch/rounds/" + id));
    ResultsBuilder results;
    results.context.run_id = id;
    folder.write("watch/rounds/" + id + "/gemm.json", results.add(gemm, "tflops", tflops).text());
  }
  folder.write("watch/rounds.jsonl", lines);
  const auto exported = [&] {
    return run(SHAKEDOWN_PROGRAM " report --thresholds=" + path("test.yaml") + " --results=" + path("watch") +
               " --bencher=" + path("b.json") + " --superbench=" + path("s.jsonl") +
               " --github-benchmark=" + path("g.json"));
  };
  exported();
  const auto bencher = nlohmann::json::parse(text_of("b.json"))[gemm]["tflops"];
  EXPECT_EQ(bencher["value"], 710);
  EXPECT_EQ(bencher["upper_value"], 710);
  EXPECT_EQ(nlohmann::json::parse(text_of("g.json")).at(0)["value"], 710);
  EXPECT_NE(text_of("s.jsonl").find("tflops:3\":710"), std::string::npos) << text_of("s.jsonl");

  std::filesystem::create_directory(path("watch/kept"));
  std::filesystem::rename(path("watch/rounds/watch-1-000001"), path("watch/kept/watch-1-000001"));
  std::filesystem::remove_all(path("watch/rounds"));
  exported();
  EXPECT_EQ(nlohmann::json::parse(text_of("g.json")).at(0)["value"], 700) << "the last one that is left";

  std::filesystem::remove_all(path("watch/kept"));
  EXPECT_NE(exported().output.find("rounds: no complete round is left, so the export has no figures"),
            std::string::npos);
  EXPECT_EQ(text_of("g.json"), "[]\n") << "no old export is left";
}

TEST_F(AcceptanceTest, LeavesNoOldReportOfAnyFormWhenInputCannotBeRead) {
  for (const char* file : {"v.md", "v.prom", "g.json", "v.html", "v.xml"}) folder.write(file, "pass");
  expect_refused(accept_file("none.json", "--markdown=" + path("v.md") + " --prometheus=" + path("v.prom") +
                                              " --github-benchmark=" + path("g.json") + " --html=" + path("v.html") +
                                              " --junit=" + path("v.xml")),
                 "none.json: no such file");
  EXPECT_NE(text_of("v.html").find("\"verdict\":\"incomplete\""), std::string::npos);
  EXPECT_NE(text_of("v.xml").find("<error type=\"incomplete\" message=\"INCOMPLETE"), std::string::npos);
  EXPECT_EQ(text_of("v.md").rfind("## INCOMPLETE ", 0), 0u);
  EXPECT_NE(text_of("v.prom").find("verdict=\"incomplete\"} 1"), std::string::npos);
  EXPECT_EQ(text_of("g.json"), "[]\n");
}

TEST_F(AcceptanceTest, KeepsTheOldReportWholeWhenTheDiskIsFull) {
  const std::string old = "an old report";
  for (const char* flag : {"--verdict=", "--markdown=", "--prometheus="}) {
    folder.write("report", old);
    // A limit of zero: no file can grow.
    const Outcome outcome =
        run("bash -c 'trap \"\" XFSZ; ulimit -f 0; exec " ACCEPTANCE_TEST " --results=" + path("good.json") +
            " --thresholds=" + path("test.yaml") + " " + flag + path("report") + "'");
    expect_unwritten(outcome, 3, "PASS", "report: cannot be written: File too large");
    EXPECT_EQ(text_of("report"), old) << flag;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << "no leftover: " << entry.path();
    }
  }
  expect_unwritten(accept_file("good.json", "--verdict=/dev/full"), 3, "PASS",
                   "/dev/full: cannot be written: No space");
}

TEST_F(AcceptanceTest, GivesTheReasonOnFileDescriptorThree) {
  const auto reason = [&](const std::string& flags) {
    folder.write("reason", "");
    accept_file("bad.json", flags + " 3>" + path("reason"));
    return text_of("reason");
  };
  EXPECT_EQ(reason(""),
            "FAIL node0 GPU 3 (rank 3, GPU-1003, 0000:13:00.0): slow GPU or power or heat, 3.2 % off: GEMM is slow; its "
            "clock was not recorded\n");
  EXPECT_EQ(reason("--families=gemm"), "") << "one family is not the verdict";
  EXPECT_EQ(reason("--nosuch"), "error: unknown flag \"--nosuch\"; see --help\n");
  EXPECT_EQ(accept_file("bad.json", "3>&-").exit_code, 1) << "closed";
  folder.write("input", "read only");
  EXPECT_EQ(accept_file("bad.json", "3<" + path("input")).exit_code, 1);
  EXPECT_EQ(text_of("input"), "read only") << "as the job server of make, which is not ours";
  EXPECT_EQ(accept_file("bad.json", "3>&1 1>/dev/null | head -c 0; true").exit_code, 0) << "nobody reads";
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

TEST_F(AcceptanceTest, RefusesABaselineThatIsNone) {
  const auto refused = [&](const std::string& text, const std::string& reason) {
    folder.write("base.json", text);
    expect_refused(accept_file("good.json", "--baseline=" + path("base.json")), reason);
    EXPECT_EQ(text_of("base.json"), text) << "not touched";
  };
  refused("", "base.json: is empty");
  refused("{\"baseline\": {\"schema\": 3}}", "base.json: baseline.schema: is 3, this program reads 2");
}

TEST_F(AcceptanceTest, LeavesTheVerdictOpenWhereTheBaselineIsOfAnotherConfiguration) {
  folder.write("base.json", ResultsBuilder(2).add(gemm, "tflops", 700).text());
  const std::string baseline = "--baseline=" + path("base.json");
  const Outcome good = accept_file("good.json", baseline);
  EXPECT_EQ(good.exit_code, 3);
  EXPECT_NE(good.output.find("not compared: ranks is 4, the baseline has 2"), std::string::npos) << good.output;
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

class ShakedownProgram : public AcceptanceTest {
 protected:
  Outcome shakedown(const std::string& words) const { return run(SHAKEDOWN_PROGRAM " " + words); }
};

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

TEST_F(ShakedownProgram, Regresses) {
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

TEST_F(ShakedownProgram, KeepsAStoreOfAcceptedRunsThatDoNotBecomeSlower) {
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
  noted(slow, "something is worse or missing");
  noted(night("4", 550), "its verdict is FAIL");
  noted(night("5", 700.7), "which has 3 runs now");
}

TEST_F(ShakedownProgram, DoesNotBeginAStoreWithARunThatFails) {
  const Outcome failed = shakedown("regress --thresholds=" + path("test.yaml") + " --results=" + path("bad.json") +
                                   " --store=" + path("store"));
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(path("store")));
}

TEST_F(ShakedownProgram, WritesWhyItCouldNotCompare) {
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

TEST_F(ShakedownProgram, ComparesAnotherMachineOnlyIfAskedAndSaysSo) {
  folder.write("before.json", repeated(700).text());
  auto other = repeated(700);
  other.context.versions["driver"] = "570.1";
  folder.write("other.json", other.text());
  folder.write("two.json", ResultsBuilder(2).add(gemm, "tflops", 700).text());
  const std::string words = " --baseline=" + path("before.json");
  EXPECT_EQ(shakedown("regress --results=" + path("two.json") + words).exit_code, 2);
  const Outcome refused = shakedown("regress --results=" + path("other.json") + words);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.output.find("driver is 570.1, the baseline has 580.159"), std::string::npos);
  const Outcome asked = shakedown("regress --allow-different --results=" + path("other.json") + words);
  EXPECT_EQ(asked.exit_code, 0);
  EXPECT_NE(asked.output.find("note: compared although driver is 570.1, the baseline has 580.159"), std::string::npos);
}

TEST_F(ShakedownProgram, RefusesToCompareAnInjectedFaultUnlessPermitted) {
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

TEST_F(ShakedownProgram, EndsAReportOfUnreadableInputWithAnErrorAndNoVerdict) {
  folder.write("broken.json", "x y");
  expect_refused(shakedown("report --results=" + path("broken.json")), "not strict JSON");
  expect_refused(shakedown("report --verdict=" + path("none.json")), "none.json");
  expect_refused(shakedown("report --nosuch"), "unknown flag");
}

TEST_F(ShakedownProgram, LeavesNoOldVerdictWhenResultsCannotBeJudged) {
  folder.write("verdict.json", "{\"verdict\": \"pass\"}");
  expect_refused(shakedown("report --results=" + path("none.json") + " --verdict=" + path("verdict.json")),
                 "none.json");
  EXPECT_NE(text_of("verdict.json").find("\"verdict\": \"incomplete\""), std::string::npos);
  EXPECT_NE(text_of("verdict.json").find("none.json: no such file"), std::string::npos) << "and why";
  const Outcome stored = shakedown("report --verdict=" + path("verdict.json"));
  EXPECT_EQ(stored.exit_code, 3) << "as ci/accept shows it";
  EXPECT_EQ(stored.last_line, "VERDICT: INCOMPLETE 0/0 (profile none, 0 ranks)");
  folder.write("verdict.json", "{\"verdict\": \"pass\"}");
  expect_refused(shakedown("report --nosuch --results=" + path("good.json") + " --verdict=" + path("verdict.json")),
                 "unknown flag");
  EXPECT_NE(text_of("verdict.json").find("incomplete"), std::string::npos) << "whatever was wrong";
}

TEST_F(ShakedownProgram, DoesNotTouchTheVerdictThatItWasToShow) {
  folder.write("verdict.json", "{\"schema\": 9}");
  folder.write("v.md", "an old report");
  expect_refused(shakedown("report --verdict=" + path("verdict.json") + " --markdown=" + path("v.md")), "schema: is 9");
  EXPECT_EQ(text_of("verdict.json"), "{\"schema\": 9}");
  EXPECT_EQ(text_of("v.md").rfind("## INCOMPLETE ", 0), 0u);
}

TEST_F(ShakedownProgram, TurnsAStoredVerdictIntoOtherForms) {
  accept_file("bad.json", "--verdict=" + path("verdict.json"));
  const std::string before = text_of("verdict.json");
  const Outcome outcome = shakedown("report --verdict=" + path("verdict.json") + " --markdown=" + path("v.md") +
                                    " --width=80 3>" + path("reason"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(text_of("v.md").rfind("## FAIL node0 GPU 3 ", 0), 0u);
  EXPECT_EQ(text_of("reason").rfind("FAIL node0 GPU 3 (rank 3, GPU-1003, ", 0), 0u);
  EXPECT_EQ(text_of("verdict.json"), before);
}

// Tests the examples of README.md and docs/verdict.md on a stored run, with and without a planted fault.
class Readme : public ShakedownProgram {
 protected:
  static std::string text_of_source(const std::string& name) {
    std::ifstream in(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  /// Compares the first output block after `heading`: `output` must contain each line. "..." stands for omitted lines.
  static void expect_first_block(const std::string& name, const std::string& output, const std::string& heading = "") {
    const std::string start = "```text\n", text = text_of_source(name);
    const auto begin = text.find(start, text.find(heading));
    ASSERT_NE(begin, std::string::npos) << name;
    const auto block = lines_of(text.substr(begin + start.size(), text.find("```", begin + 3) - begin - start.size()));
    ASSERT_GE(block.size(), 10u) << name;
    const auto said = lines_of(output);
    for (const std::string& line : block) {
      EXPECT_TRUE(line == "..." || std::find(said.begin(), said.end(), line) != said.end())
          << name << " shows \"" << line << "\", but the judge says:\n"
          << output;
    }
  }
  const std::filesystem::path stored = SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm/4ranks/1";
  const std::string profiles = " --thresholds=" SHAKEDOWN_SOURCE_DIR "/thresholds ";
};

TEST_F(Readme, ShowsWhatTheJudgeSaysOfAGpuWithSlowMemory) {
  constexpr std::size_t victim = 2;
  std::filesystem::create_directory(folder.path() / "run");
  for (const auto& entry : std::filesystem::directory_iterator(stored)) {
    std::ifstream in(entry.path());
    auto document = nlohmann::json::parse(in);
    for (auto& row : document["benchmarks"]) {
      if (entry.path().filename() != "hbm.json") break;
      auto& values = row["by_rank"]["hbm_gb_per_s"];
      values[victim] = 0.9 * values[victim].get<double>();
      row["hbm_gb_per_s"] = *std::min_element(values.begin(), values.end());
    }
    folder.write("run/" + entry.path().filename().string(), document.dump());
  }
  const Outcome outcome = shakedown("report --results=" + path("run") + profiles);
  EXPECT_EQ(outcome.exit_code, 1);
  expect_first_block("README.md", outcome.output);
}

TEST_F(Readme, ShowsWhatTheJudgeSaysOfEightHostsWithOneBehindASlowCable) {
  const Outcome outcome =
      shakedown("report --families=pairs --results=" SHAKEDOWN_SOURCE_DIR "/tests/data/host-8hosts" + profiles);
  EXPECT_EQ(outcome.exit_code, 1);
  expect_first_block("docs/verdict.md", outcome.output, "### Between hosts");
}

TEST_F(Readme, ShowsWhatTheJudgeSaysOfAStoredRun) {
  const std::string judged = "report --results=" + stored.string() + profiles;
  expect_first_block("docs/verdict.md", shakedown(judged).output);
  // The README's table of measured values: `key metric` | value | limit.
  const auto said = lines_of(shakedown(judged + " --all --width=1000").output);
  const std::regex row(R"(\| .* \| `([^ `]+/[^ `]+ [^ `]+)` \| ([^|]+) \| ([^|]+) \|.*)");
  int rows = 0;
  for (const std::string& line : lines_of(text_of_source("README.md"))) {
    std::smatch part;
    if (!std::regex_match(line, part, row)) continue;
    ++rows;
    EXPECT_TRUE(std::any_of(said.begin(), said.end(), [&](const std::string& finding) {
      return finding.rfind(part[1].str() + "  ", 0) == 0 &&
             finding.find("  " + part[2].str() + "  ") != std::string::npos &&
             finding.find("  " + part[3].str() + "  ") != std::string::npos;
    })) << line;
  }
  EXPECT_EQ(rows, 9);
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

TEST_F(ShakedownProgram, CreatesMergesAndShowsBaselines) {
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

TEST_F(ShakedownProgram, RefusesABaselineThatItCannotMake) {
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
  EXPECT_NE(unwritten.output.find("cannot be written"), std::string::npos) << unwritten.output;
}

TEST_F(ShakedownProgram, RefusesAFlagThatTheVerbWouldIgnore) {
  accept_file("good.json", "--verdict=" + path("verdict.json"));
  const auto results = " --results=" + path("good.json"), baseline = " --baseline=" + path("good.json");
  for (const auto& [words, reason] : std::vector<std::pair<std::string, std::string>>{
           {"report --scontrol" + results, "--scontrol: report does not take it; it is a flag of fleet, nodes"},
           {"report --min-effect=0.1" + results, "--min-effect: report does not take it; it is a flag of compare, regress"},
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
           {"report --expect=ranks=4 --verdict=" + path("verdict.json"), "a stored verdict is shown as it is"},
           {"nodes --site=x --verdict=" + path("verdict.json"), "a stored verdict is shown as it is"}}) {
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

// --- shakedown nodes ---

class NodesVerb : public AcceptanceTest {
 protected:
  Outcome nodes(const std::string& flags) const {
    return run(SHAKEDOWN_PROGRAM " nodes --thresholds=" + path("test.yaml") + " " + flags);
  }
};

TEST_F(NodesVerb, WritesHostFilesAndActions) {
  const Outcome bad = nodes("--results=" + path("bad.json") + " --nodes=" + path("list"));
  EXPECT_EQ(bad.exit_code, 1) << bad.output;
  EXPECT_EQ(text_of("list/good_nodes"), "# no good nodes\n");
  EXPECT_EQ(text_of("list/bad_nodes"), "node0 slots=4\n");
  EXPECT_NE(text_of("list/nodes.json").find("\"action\": \"ISOLATE\""), std::string::npos);
  EXPECT_NE(text_of("list/nodes.json").find("\"verdict\": \"fail\""), std::string::npos) << "as in verdict.json";
  const Outcome good = nodes("--results=" + path("good.json") + " --nodes=" + path("list"));
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_EQ(text_of("list/good_nodes"), "node0 slots=4\n");
  EXPECT_EQ(text_of("list/bad_nodes"), "# no bad nodes\n");
}

TEST_F(NodesVerb, PrintsJsonAndReadsAStoredVerdict) {
  accept_file("bad.json", "--verdict=" + path("verdict.json"));
  const Outcome stored = nodes("--verdict=" + path("verdict.json"));
  EXPECT_EQ(stored.exit_code, 1);
  EXPECT_NE(stored.output.find("\"host\": \"node0\""), std::string::npos) << stored.output;
  EXPECT_EQ(stored.output, nodes("--results=" + path("bad.json")).output);
}

TEST_F(NodesVerb, ExitsWithOneForEachBadNodeAlsoWhereOthersAreUndecided) {
  const auto profiles = load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds");
  const auto exit_code = [&](const std::vector<Results>& files) {
    folder.write("verdict.json", verdict_json(judge(files, profiles, {})));
    return nodes("--verdict=" + path("verdict.json")).exit_code;
  };
  for (const auto& [key, fact, value] : {std::tuple("preflight/of:host", "gpus_missing", 1.0),
                                         {"preflight/of:gpu", "ecc_uncorrected", 3.0},
                                         {"preflight/of:gpu", "remap_pending", 1.0}}) {
    auto files = testing_support::stored_run_with(key, fact, value);
    EXPECT_EQ(exit_code(files), 1) << fact;
    std::erase_if(files, [](const Results& file) { return file.rows.front().key.family() != "preflight"; });
    EXPECT_EQ(exit_code(files), 1) << fact << ", and nothing else was measured";
  }
  auto unfinished = testing_support::stored_run_with("preflight/of:host", "gpus_missing", 0);
  EXPECT_EQ(exit_code(unfinished), 0);
  unfinished.front().context.complete = false;
  EXPECT_EQ(exit_code(unfinished), 3);
}

TEST_F(NodesVerb, LeavesNoOldHostFileBehindBadInput) {
  nodes("--results=" + path("good.json") + " --nodes=" + path("list"));
  folder.write("cut.json", "{\"context\": {");
  const Outcome refused = nodes("--results=" + path("cut.json") + " --nodes=" + path("list"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(text_of("list/good_nodes").rfind("# no good nodes: ", 0), 0u) << text_of("list/good_nodes");
}

TEST_F(NodesVerb, ProvesNoNodeGoodWithoutAProfile) {
  folder.write("other.json", ResultsBuilder(4, 1, "Unheard-of GPU").add(gemm, "tflops", 700).text());
  const Outcome outcome = nodes("--results=" + path("other.json") + " --nodes=" + path("list"));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(text_of("list/good_nodes").rfind("# no good nodes: no profile ", 0), 0u);
}

TEST_F(NodesVerb, ProvesNoNodeGoodByARunThatHasNotEndedOrByOneFamily) {
  const std::string results = "--results=" + path("run") + " --verdict=" + path("stored.json");
  std::filesystem::create_directory(folder.path() / "run");
  folder.write("run/gemm.json", text_of("good.json"));
  folder.write("run/lock", "host: nosuch\nprocess: 1\n");
  const auto program = [&](const std::string& name) {
    return run(name + " --thresholds=" + path("test.yaml") + " " + results);
  };
  for (const auto& outcome : {accept(results), program(SHAKEDOWN_PROGRAM " report"),
                              run(SHAKEDOWN_PROGRAM " report --verdict=" + path("stored.json"))}) {
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_EQ(outcome.last_line, "VERDICT: INCOMPLETE 7/8 (profile test, 4 ranks)") << outcome.output;
    EXPECT_NE(outcome.output.find("run belongs to a run that is not complete: process 1 on nosuch"), std::string::npos)
        << outcome.output;
  }
  const auto expect_undecided = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_EQ(outcome.output, "# undecided, left as it is: node0\n");
  };
  expect_undecided(nodes(results + " --scontrol"));
  expect_undecided(nodes("--scontrol --verdict=" + path("stored.json")));
  folder.write("run/lock", "host: nosuch\nprocess: 1\nended: now\n");
  EXPECT_EQ(nodes(results).exit_code, 0);
  folder.write(
      "run/train_step.json",
      ResultsBuilder().add_error("train_step/model:tiny/batch:1/seq:16", waiver_text("in the full tier")).text());
  expect_undecided(nodes(results + " --families=gemm --kubectl"));
  expect_undecided(nodes("--scontrol --verdict=" + path("stored.json")));
}

TEST_F(AcceptanceTest, JudgesWhatRanksLoseInCompany) {
  folder.write("alone.json", ResultsBuilder(1).add(gemm, "tflops", 900).text());
  const Outcome outcome = accept_file("good.json", "--scaling=" + path("alone.json"));
  EXPECT_EQ(outcome.exit_code, 1) << "700 of 900 is 0.78";
  EXPECT_NE(outcome.output.find("of each rank: 1 rank 900 TFLOPS (100.0 %), 4 ranks 700 TFLOPS (77.8 %)"),
            std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace shakedown::acceptance_cli_test
