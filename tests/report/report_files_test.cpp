// Tests the files that the programs write: every form, and none that is old, half or over input.
#include <algorithm>
#include <filesystem>

#include "tests/report/acceptance_program.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown::report_files_test {
namespace {

using namespace acceptance_program;
using testing_support::ResultsBuilder;

class ReportFiles : public ShakedownProgram {};

TEST_F(ReportFiles, SaysWhenItsOutputIsLost) {
  const auto judged = " --results=" + path("good.json") + " --thresholds=" + path("test.yaml");
  for (const std::string lost : {">/dev/full", ">&-"}) {
    for (const auto& command : {ACCEPTANCE_TEST + judged, ACCEPTANCE_TEST + judged + " --explain=" + gemm,
                                SHAKEDOWN_PROGRAM " report" + judged, SHAKEDOWN_PROGRAM " nodes" + judged,
                                SHAKEDOWN_PROGRAM " regress" + judged + " --baseline=" + path("good.json"),
                                SHAKEDOWN_PROGRAM " baseline show --baseline=" + path("good.json"),
                                std::string(SHAKEDOWN_PROGRAM " --help")}) {
      const auto outcome = run("sh -c '" + command + " 2>" + path("said") + " " + lost + "'");
      EXPECT_EQ(outcome.exit_code, 3) << command << " " << lost;
      EXPECT_NE(text_of("said").find("standard output: "), std::string::npos) << command << lost;
    }
  }
}

TEST_F(ReportFiles, WritesTheVerdict) {
  accept_file("bad.json", "--verdict=" + path("verdict.json"));
  EXPECT_NE(text_of("verdict.json").find("\"verdict\": \"fail\""), std::string::npos);
}

TEST_F(ReportFiles, LeavesNoOldVerdictWhenInputCannotBeRead) {
  folder.write("verdict.json", "{\"verdict\": \"pass\"}");
  expect_refused(accept_file("none.json", "--verdict=" + path("verdict.json")), "none.json: no such file");
  EXPECT_NE(text_of("verdict.json").find("\"verdict\": \"incomplete\""), std::string::npos);
  folder.write("verdict.json", "{\"verdict\": \"pass\"}");
  accept_file("good.json", "--nosuch --verdict=" + path("verdict.json"));
  EXPECT_NE(text_of("verdict.json").find("\"verdict\": \"incomplete\""), std::string::npos) << "whatever was wrong";
}

TEST_F(ReportFiles, TakesThePassAndNotTheFailureWhereAnOutputCannotBeWritten) {
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

TEST_F(ReportFiles, WritesNoReportOverItsInput) {
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

TEST_F(ReportFiles, RefusesTwoReportsIntoOneFile) {
  expect_refused(accept_file("good.json", "--junit=" + path("both") + " --markdown=" + path("both")),
                 "--junit and --markdown name the same file");
}

TEST_F(ReportFiles, WritesEveryForm) {
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

TEST_F(ReportFiles, ExportsOfASoakHoldTheFiguresOfItsLastCompleteRound) {
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
  EXPECT_NE(exported().output.find("rounds: no "), std::string::npos);
  EXPECT_EQ(text_of("g.json"), "[]\n") << "no old export is left";
}

TEST_F(ReportFiles, LeavesNoOldReportOfAnyFormWhenInputCannotBeRead) {
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

TEST_F(ReportFiles, KeepsTheOldReportWholeWhenTheDiskIsFull) {
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

TEST_F(ReportFiles, GivesTheReasonOnFileDescriptorThree) {
  const auto reason = [&](const std::string& flags) {
    folder.write("reason", "");
    accept_file("bad.json", flags + " 3>" + path("reason"));
    return text_of("reason");
  };
  EXPECT_TRUE(reason("").starts_with("FAIL node0 GPU 3 (rank 3, GPU-1003, 0000:13:00.0): "));
  EXPECT_EQ(reason("--families=gemm"), "") << "one family is not the verdict";
  EXPECT_TRUE(reason("--nosuch").starts_with("error: unknown flag \"--nosuch\";"));
  EXPECT_EQ(accept_file("bad.json", "3>&-").exit_code, 1) << "closed";
  folder.write("input", "read only");
  EXPECT_EQ(accept_file("bad.json", "3<" + path("input")).exit_code, 1);
  EXPECT_EQ(text_of("input"), "read only") << "as the job server of make, which is not ours";
  EXPECT_EQ(accept_file("bad.json", "3>&1 1>/dev/null | head -c 0; true").exit_code, 0) << "nobody reads";
}

TEST_F(ReportFiles, LeavesNoOldVerdictWhenResultsCannotBeJudged) {
  folder.write("verdict.json", "{\"verdict\": \"pass\"}");
  expect_refused(shakedown("report --results=" + path("none.json") + " --verdict=" + path("verdict.json")),
                 "none.json");
  EXPECT_NE(text_of("verdict.json").find("\"verdict\": \"incomplete\""), std::string::npos);
  EXPECT_NE(text_of("verdict.json").find("none.json: "), std::string::npos) << "and why";
  const Outcome stored = shakedown("report --verdict=" + path("verdict.json"));
  EXPECT_EQ(stored.exit_code, 3) << "as ci/accept shows it";
  EXPECT_EQ(stored.last_line, "VERDICT: INCOMPLETE 0/0 (profile none, 0 ranks)");
  folder.write("verdict.json", "{\"verdict\": \"pass\"}");
  expect_refused(shakedown("report --nosuch --results=" + path("good.json") + " --verdict=" + path("verdict.json")),
                 "unknown flag");
  EXPECT_NE(text_of("verdict.json").find("incomplete"), std::string::npos) << "whatever was wrong";
}

TEST_F(ReportFiles, DoesNotTouchTheVerdictThatItWasToShow) {
  folder.write("verdict.json", "{\"schema\": 9}");
  folder.write("v.md", "an old report");
  expect_refused(shakedown("report --verdict=" + path("verdict.json") + " --markdown=" + path("v.md")), "schema: is 9");
  EXPECT_EQ(text_of("verdict.json"), "{\"schema\": 9}");
  EXPECT_EQ(text_of("v.md").rfind("## INCOMPLETE ", 0), 0u);
}

TEST_F(ReportFiles, TurnsAStoredVerdictIntoOtherForms) {
  accept_file("bad.json", "--verdict=" + path("verdict.json"));
  const std::string before = text_of("verdict.json");
  const Outcome outcome = shakedown("report --verdict=" + path("verdict.json") + " --markdown=" + path("v.md") +
                                    " --width=80 3>" + path("reason"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(text_of("v.md").rfind("## FAIL node0 GPU 3 ", 0), 0u);
  EXPECT_EQ(text_of("reason").rfind("FAIL node0 GPU 3 (rank 3, GPU-1003, ", 0), 0u);
  EXPECT_EQ(text_of("verdict.json"), before);
}

TEST_F(ReportFiles, HaveNoFiguresOfVirtualGpus) {
  ResultsBuilder builder(4, 1, "virtual NVIDIA H200");
  builder.context.backend = Backend::virtual_gpu;
  folder.write("virtual.json", builder.add(gemm, "tflops", 700).text());
  for (const std::string flag : {" --superbench=", " --bencher=", " --github-benchmark="}) {
    const Outcome outcome =
        shakedown("report --thresholds=" + path("test.yaml") + " --results=" + path("virtual.json") + flag +
                  path("figures") + " --csv=" + path("v.csv"));
    expect_unwritten(outcome, 3, "VIRTUAL", "virtual.json: is of --backend=virtual, and an export of figures takes");
    EXPECT_FALSE(std::filesystem::exists(path("figures"))) << flag;
    EXPECT_NE(text_of("v.csv"), "") << "a verdict may be kept";
  }
}

}  // namespace
}  // namespace shakedown::report_files_test
