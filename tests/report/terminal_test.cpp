// Tests the text of a verdict, as people and programs read it.
#include "report/terminal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/verdict_json.hpp"
#include "report/words.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::terminal_test {
namespace {

using testing_support::Folder;
using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

Verdict failing() {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 600, {700, 610, 710, 600}).add("gemm/dtype:int8/m:1/n:1/k:1", "tflops", 5);
  return judge(
      {builder.results()},
      profile("  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 620, source: \"a paper\"}\n"), {});
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void add_findings(Verdict& verdict, const std::vector<Finding>& more) {
  verdict.findings.insert(verdict.findings.end(), more.begin(), more.end());
}

constexpr TerminalStyle in_full{false, 120, true};

TEST(Terminal, ShowsCopiesBetweenTheGpusOfEachHost) {
  ResultsBuilder builder(6, 3);
  builder.add("p2p/op:read/engine:ce/src:0/dst:1/bytes:1073741824", "copy_gb_per_s", 390, Values(6, 390.0));
  const auto text = matrices_text({builder.results()});
  for (const auto* host : {"on node0", "on node1", "on node2"}) EXPECT_NE(text.find(host), std::string::npos);
}

TEST(Terminal, EndsWithTheVerdictLine) {
  const auto lines = lines_of(terminal_text(failing()));
  EXPECT_EQ(lines.back(), "VERDICT: FAIL 7/8 (profile test, 4 ranks)");
}

TEST(Terminal, ShowsFindingValueRankLimitAndStatusInAlignedColumns) {
  const auto lines = lines_of(terminal_text(failing(), in_full));
  const auto row = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.rfind(gemm, 0) == 0; });
  ASSERT_NE(row, lines.end());
  EXPECT_EQ(*row, gemm + " tflops  600 TFLOPS      rank 3 node0 GPU-1003 +1  min 620  fail");
  const auto head = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.rfind("finding ", 0) == 0; });
  ASSERT_NE(head, lines.end());
  EXPECT_EQ(head->find("worst value"), row->find("600 TFLOPS"));
  EXPECT_EQ(head->find("limit"), row->find("min 620"));
}

TEST(Terminal, NamesTheCulpritsBeforeEverythingElse) {
  const std::string text = terminal_text(failing());
  EXPECT_EQ(
      text.find(
          "\n\nCULPRITS: 2\n\nslow GPU or power or heat: rank 3, node0 GPU 3, GPU-1003, 0000:13:00.0\n  3.2 % off: ",
          text.find('\n')),
      text.find('\n'))
      << text;
  EXPECT_NE(text.find("  gemm/dtype:bf16/m:8192/n:8192/k:8192 tflops 600 TFLOPS, limit 620, 3.2 % off (rule)\n"),
            std::string::npos);
  EXPECT_NE(text.find("  next: ssh node0 nvidia-smi -q -i GPU-1003"), std::string::npos);
}

TEST(Terminal, FoldsTheFindingsThatACulpritExplains) {
  const Verdict verdict = failing();
  const auto all = consequences_of(verdict.culprits, verdict.findings);
  EXPECT_EQ(all.at(0).findings, 1u);
  EXPECT_EQ(all.at(0).worst->key, gemm);
  const std::string text = terminal_text(verdict), full = terminal_text(verdict, in_full);
  EXPECT_NE(text.find("\n  " + consequences_text(all.at(0)) + "; "), std::string::npos) << text;
  EXPECT_EQ(text.find("\nfinding "), std::string::npos) << "no table, because every finding is explained";
  EXPECT_NE(full.find("\n  explained by: "), std::string::npos) << full;
}

TEST(VerdictJson, RefersToTheCulpritThatExplainsAFinding) {
  const Verdict verdict = failing();
  const auto json = nlohmann::json::parse(verdict_json(verdict));
  const Verdict read = verdict_of_text(verdict_json(verdict), "verdict.json");
  for (std::size_t i = 0; i < verdict.findings.size(); ++i) {
    const Finding& finding = verdict.findings[i];
    EXPECT_EQ(json["findings"][i].contains("culprit"), finding.key == gemm) << finding.key;
    EXPECT_EQ(read.findings[i].culprit, finding.culprit);
  }
  Verdict wrong = verdict;
  wrong.findings.back().culprit = verdict.culprits.size();
  EXPECT_THROW(verdict_of_text(verdict_json(wrong), "verdict.json"), InputError);
}

TEST(Terminal, WrapsTheLinesOfACulpritButNoCommand) {
  const std::string narrow = terminal_text(failing(), {false, 60, false});
  const std::string block = narrow.substr(narrow.find("CULPRITS"), narrow.find("\nrule: ") - narrow.find("CULPRITS"));
  std::size_t commands = 0;
  for (const std::string& line : lines_of(block)) {
    const bool is_command = line.rfind("  next: ", 0) == 0 || line.rfind("slow GPU", 0) == 0;
    commands += line.size() > 60 ? 1 : 0;
    EXPECT_TRUE(is_command || line.size() <= 60) << line;
  }
  EXPECT_GE(commands, 1u) << block;
}

TEST(Terminal, CountsTheCulpritsBeyondThePageByNode) {
  Verdict verdict;
  for (int i = 0; i < 25; ++i) {
    Diagnosis d;
    d.causes = {Cause::slow_gpu};
    d.places = {Culprit{i, "node" + std::to_string(i < 20 ? 7 : 9), {}, {}, {}}};
    d.place_count = 1;
    verdict.culprits.push_back(d);
  }
  EXPECT_NE(terminal_text(verdict).find("15 more on 2 nodes: node7 (10), node9 (5); "), std::string::npos);
}

TEST(Terminal, NamesWhatRepairDesksAskForWhereHardwareIsAtFault) {
  Verdict verdict;
  const auto text = [&] { return terminal_text(verdict); };
  const auto asks = [&](const char* words) { return text().find(words) != std::string::npos; };
  Finding finding;
  finding.key = Key("preflight/of:dcgm_gpu");
  finding.metric = "dcgm_failed";
  finding.status = Status::fail;
  finding.offenders = {Culprit{3, "node4", {}, {}, {}}};
  verdict.findings = {finding};
  EXPECT_TRUE(
      asks("before anything is restarted:\n  ssh node4 nvidia-bug-report.sh\n"
           "  build/bin/shakedown archive --results=DIR  # of this run\n"));
  verdict.findings.front().offenders[0].host = "node4;touch x";
  EXPECT_TRUE(asks("  ssh HOST nvidia-bug-report.sh\n")) << "no name of it gets into a shell";
  verdict.findings.front().metric = "mig";
  EXPECT_FALSE(asks("nvidia-bug-report")) << "a setting";
  verdict.findings.front().metric = "remap_failed";
  verdict.findings.front().severity = Severity::warn;
  EXPECT_FALSE(asks("nvidia-bug-report")) << "fails nothing";
  for (int i = 0; i < 5; ++i) {
    Diagnosis d;
    d.causes = {i == 0 ? Cause::busy_core : Cause::slow_link};
    d.places = {Culprit{i, "node" + std::to_string(i), {}, {}, {}}};
    verdict.culprits.push_back(d);
  }
  EXPECT_FALSE(asks("ssh node0 nvidia-bug-report")) << "a busy core";
  EXPECT_TRUE(asks("ssh node3 nvidia-bug-report.sh  # and 1 more host\n"));
}

TEST(Terminal, SaysWhatEachJudgementSaid) {
  const Verdict verdict = failing();
  const std::string text = terminal_text(verdict);
  for (const auto& summary : verdict.summaries) {
    EXPECT_NE(text.find("\n" + std::string(name(summary.by)) + ": " + summary.text + "\n"), std::string::npos) << text;
  }
  EXPECT_NE(text.find(" gemm +5.6 %\n\nFAIL"), std::string::npos) << text;
}

TEST(Terminal, GivesTheReasonsAboveTheVerdict) {
  const std::string text = terminal_text(failing(), in_full);
  for (const char* part : {"rank 1 node0 GPU-1001 0000:11:00.0: 610", "source: a paper", "test.yaml:6",
                           "next: mpirun -np 4 build/bench/bench_gemm"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(Terminal, IsColouredOnlyWhenAsked) {
  EXPECT_EQ(terminal_text(failing()).find('\033'), std::string::npos);
  const std::string colored = terminal_text(failing(), {true, 120, true});
  EXPECT_NE(colored.find("\033[31mfail\033[0m"), std::string::npos);
  EXPECT_EQ(colored.rfind("\033[31mFAIL\033[0m ", 0), 0u) << colored;
  EXPECT_NE(colored.find("\nVERDICT: \033[31mFAIL\033[0m 7/8"), std::string::npos) << colored;
}

TEST(Terminal, ShowsAWarningAsAWarning) {
  Finding finding;
  finding.key = Key("machine/fault");
  finding.status = Status::fail;
  finding.severity = Severity::warn;
  Verdict verdict;
  add_findings(verdict, {finding});
  finding.key = Key("machine/other");
  finding.status = Status::missing;
  add_findings(verdict, {finding});
  const std::string text = terminal_text(verdict, in_full);
  EXPECT_NE(text.find("\nwarn: machine/fault\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nmachine/other  -            -      -      warn\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("fail"), std::string::npos) << text;
  EXPECT_EQ(text.find("missing"), std::string::npos) << text;
}

TEST(Terminal, GivesWhatFailsBeforeWhatWarns) {
  Verdict verdict;
  Finding warning;
  warning.key = Key("machine/odd");
  warning.status = Status::fail;
  warning.severity = Severity::warn;
  Finding failure = warning;
  failure.key = Key("machine/broken");
  failure.severity = Severity::fail;
  add_findings(verdict, std::vector(30, warning));
  add_findings(verdict, {failure});
  const std::string text = terminal_text(verdict);
  const auto first = text.find("\nfail: machine/broken\n");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_LT(first, text.find("\nwarn: machine/odd\n"));
}

TEST(Terminal, NamesAGpuByItsFirstDigitsAndByItsBusOnlyWithoutAny) {
  Finding finding;
  finding.key = Key(gemm);
  finding.worst = Culprit{3, "node7", "GPU-4f2a1b9c-d829-f94a-8be1-dc61053c51cf", "0000:1b:00.0", 600};
  Verdict verdict;
  add_findings(verdict, {finding});
  EXPECT_NE(terminal_text(verdict, in_full).find("  rank 3 node7 GPU-4f2a1b9c  "), std::string::npos)
      << terminal_text(verdict, in_full);
  EXPECT_NE(verdict_json(verdict).find("GPU-4f2a1b9c-d829-f94a-8be1-dc61053c51cf"), std::string::npos);
  verdict.findings[0].worst->uuid.reset();
  EXPECT_NE(terminal_text(verdict, in_full).find("  rank 3 node7 0000:1b:00.0  "), std::string::npos)
      << terminal_text(verdict, in_full);
}

TEST(Terminal, GivesTheWaiversOfOneReasonInOneLine) {
  const auto waived = [](const std::string& key, const std::string& why) {
    Finding finding;
    finding.key = Key(key);
    finding.status = Status::waived;
    finding.detail = why;
    return finding;
  };
  Verdict verdict;
  add_findings(verdict, {waived("p2p/op:read/src:0/dst:1", "no peer"), waived("preflight/of:folder", "no folder"),
                         waived("p2p/op:read/src:0/dst:2", "no peer"), waived("preflight/of:folder", "no folder"),
                         waived("hbm/op:a", "no memory"), waived("gemm/dtype:b", "no memory"),
                         waived("memtest/pattern:random", "masked")});
  EXPECT_NE(terminal_text(verdict).find("\n\nwaived: p2p/op:read/src:0/... (2 findings): no peer\n"
                                        "waived: preflight/of:folder (2 findings): no folder\n"
                                        "waived: gemm, hbm (2 findings): no memory\n"
                                        "waived: memtest/pattern:random: masked\n\n"),
            std::string::npos)
      << terminal_text(verdict);
}

TEST(Terminal, CountsWhatNoRuleJudgesAndListsItOnlyIfAsked) {
  Verdict verdict = failing();
  const std::string value = "gemm/dtype:int8/m:1/n:1/k:1 tflops  5 TFLOPS";
  EXPECT_NE(terminal_text(verdict).find("\n1 measured value is judged by no rule: --all lists them\n"),
            std::string::npos);
  EXPECT_EQ(terminal_text(verdict).find(value), std::string::npos);
  TerminalStyle all;
  all.all = true;
  EXPECT_NE(terminal_text(verdict, all).find(value), std::string::npos);
  verdict.unjudged.push_back({Key("gemm/dtype:nvfp4/m:1/n:1/k:1"), "", {}, "needs a newer GPU"});
  verdict.unjudged.push_back(verdict.unjudged.front());
  EXPECT_NE(terminal_text(verdict).find("\n2 measured values "), std::string::npos);
  EXPECT_NE(terminal_text(verdict).find(", 1 more was"), std::string::npos);
  EXPECT_NE(terminal_text(judge({ResultsBuilder().add(gemm, "tflops", 5).results()}, {}, {})).find("  5 TFLOPS\n"),
            std::string::npos)
      << "without a profile there is nothing else to see";
}

TEST(Terminal, SaysHowTheFleetStandsInAFewLinesAndShowsItsPartsIfAsked) {
  Verdict verdict = failing();
  verdict.fleet = {};
  EXPECT_EQ(terminal_text(verdict).find("fleet:"), std::string::npos) << "nothing is known of it";
  verdict.fleet.levels = {{"gemm", "tflops", 9, 0.021, false},
                          {"gemm/load:sustained", "tflops", 1, 0.5, false},
                          {"p2p", "copy_gb_per_s", 7, -0.012, true}};
  FleetLine rack{Grouping::rack, "r7", "gemm", 64, -0.02, -0.07, 0.03, -0.023};
  rack.temperature_c = 58;
  rack.hotter_c = 8.2;
  rack.slow = rack.hot = true;
  for (const char* name : {"gemm", "lora_step"}) {
    rack.name = name;
    verdict.fleet.lines.push_back(rack);
  }
  rack.slow = false;
  for (const char* group : {"a", "b", "c"}) {
    rack.group = group;
    verdict.fleet.lines.push_back(rack);
  }
  const std::string text = terminal_text(verdict);
  EXPECT_NE(
      text.find("\nfleet: median value, against its reference: p2p -1.2 %\n"
                "fleet: median value, against its limits: gemm +2.1 %\n"
                "fleet: rack r7 (64 GPUs): 2.3 % slower in gemm and 2.3 % slower in lora_step, 8 C hotter than the "
                "others; a warning\n"
                "fleet: rack a (64 GPUs): 8 C hotter than the others; a warning\n"
                "fleet: rack b (64 GPUs): 8 C hotter than the others; a warning\n"
                "fleet: 1 more outlier: --all lists them\n"),
      std::string::npos)
      << text;
  TerminalStyle all;
  all.all = true;
  EXPECT_NE(terminal_text(verdict, all).find("rack r7       gemm       64    -2.0 %  -7.0 %  +3.0 %  58 C"),
            std::string::npos)
      << terminal_text(verdict, all);
}

// Every stored run in the tree, with the profiles and without them.
TEST(Terminal, OfEveryStoredRunFitsIntoAScreen) {
  const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;
  const auto profiles = load_profiles(source / "thresholds");
  std::size_t runs = 0, warned = 0;
  for (const char* root : {"ci/baselines", "tests/data"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source / root)) {
      if (entry.path().filename() != "gemm.json") continue;
      const auto results = read_results(std::vector{entry.path().parent_path()});
      for (const auto& known : {profiles, std::vector<Profile>{}}) {
        TerminalStyle all;
        all.all = true;
        const Verdict verdict = judge(results, known, {});
        const std::string text = terminal_text(verdict, all);
        const auto lines = lines_of(text);
        bool table = false;
        for (const std::string& line : lines) {
          table = !line.empty() && (table || line.rfind("finding  ", 0) == 0 || line.rfind("measured, ", 0) == 0);
          EXPECT_TRUE(!table || columns(line) <= 120) << entry.path() << ": " << line;
        }
        if (verdict.state != State::pass) continue;
        ++runs;
        warned += text.find("warn") == std::string::npos ? 0 : 1;
        for (const char* word : {"fail", "missing"}) {
          EXPECT_EQ(text.find(std::string(word) + ":"), std::string::npos) << entry.path();
          EXPECT_TRUE(std::none_of(lines.begin(), lines.end(), [&](const std::string& line) {
            return line.size() > 6 && line.substr(line.rfind(' ') + 1) == word;
          })) << entry.path();
        }
      }
    }
  }
  EXPECT_GE(runs, 3u);
  EXPECT_GE(warned, 1u) << "of a GPU with errors in its past, which is stored";
}

TEST(Terminal, ShowsTheFigureOfEachFamilyAndWhatStoredRunsHave) {
  const std::string rule =
      "  - {benchmark: \"gemm/dtype:DTYPE/m:1/n:1/k:1\", metric: tflops, every: rank, min: 500, SEEN";
  const auto rule_of = [&](std::string text, const std::string& dtype, const std::string& seen) {
    text.replace(text.find("DTYPE"), 5, dtype);
    return text.replace(text.find("SEEN"), 4, seen) + "source: s}\n";
  };
  const auto rules = rule_of(rule, "bf16", "seen: {low: 640, high: 660, gpus: 14}, ") + rule_of(rule, "f16", "");
  const auto text_of = [&](double worst) {
    ResultsBuilder builder;
    builder.add("gemm/dtype:bf16/m:1/n:1/k:1", "tflops", worst, {worst + 2, worst, worst + 2, worst + 1});
    builder.add("gemm/dtype:f16/m:1/n:1/k:1", "tflops", 510, {510, 510, 510, 510});
    const Verdict verdict = judge({builder.results()}, profile(rules), {});
    EXPECT_EQ(verdict.state, State::pass) << terminal_text(verdict);
    const auto folder = std::make_unique<Folder>();
    return terminal_text(read_verdict(folder->write("verdict.json", verdict_json(verdict))));
  };
  const std::string usual = text_of(650);
  EXPECT_NE(usual.find("\nGEMM bf16, 1 x 1 x 1  650 TFLOPS   node0 GPU 1  min 500  30.0 %  640 to 660 on 14 GPUs\n"
                       "closest to its limit: GEMM f16, 1 x 1 x 1: 510 TFLOPS, min 500, 2.0 %\n"),
            std::string::npos)
      << usual;
  EXPECT_NE(text_of(639).find("  below: 640 to 660 on 14 GPUs\n"), std::string::npos);
  EXPECT_NE(text_of(661).find("  above: 640 to 660 on 14 GPUs\n"), std::string::npos);
  EXPECT_NE(text_of(640 - 1e-9).find("  640 to 660 on 14 GPUs\n"), std::string::npos)
      << "a stored run is within itself";
}

TEST(Terminal, KeepsALongRemarkOutOfTheTable) {
  Finding finding;
  finding.key = Key("machine/gpus");
  finding.detail = "all measured; only those that a mask allows: CUDA_VISIBLE_DEVICES=0,1";
  Verdict verdict;
  add_findings(verdict, {finding});
  const auto lines = lines_of(terminal_text(verdict, in_full));
  EXPECT_EQ(lines[3], "machine/gpus  see below    -      -      pass");
  EXPECT_NE(terminal_text(verdict, in_full).find("pass: machine/gpus: " + finding.detail), std::string::npos);
}

ResultsBuilder nine(double tflops) {
  ResultsBuilder builder;
  for (int i = 0; i < 9; ++i) builder.add(gemm, "tflops", tflops * (1 + 1e-5 * i));
  return builder;
}

TEST(Terminal, ShowsChangesAgainstABaseline) {
  auto before = nine(700);
  before.add("hbm/x:1", "hbm_gb_per_s", 4000);
  const auto regression = judge_regression({nine(600).results()}, baseline_of({before.results()}));
  TerminalStyle wide;
  wide.width = 200;
  const auto lines = lines_of(terminal_text(regression, wide));
  EXPECT_EQ(lines.front(), lines.back());
  EXPECT_EQ(lines[3],
            "GEMM bf16, 8192 x 8192 x 8192 (tflops)  700.03 TFLOPS  600.02 TFLOPS  -14.3 % (-15.9 to -12.7)  "
            "1, 1      worse");
  EXPECT_EQ(lines.back(), "REGRESSION: 1 worse, 1 missing, 0 inconclusive, 1 compared (minimal effect 1 %): " + gemm +
                              " tflops -14.3 % and 1 more");
}

TEST(Terminal, BeginsAComparisonWithTheLargestLossAndListsTheRestOnlyIfAsked) {
  auto before = nine(700), now = nine(600);
  for (int i = 0; i < 9; ++i) {
    before.add("allreduce/dtype:f32/bytes:1073741824", "busbw_gb_per_s", 300 * (1 + 1e-5 * i));
    now.add("allreduce/dtype:f32/bytes:1073741824", "busbw_gb_per_s", 300 * (1 + 1e-5 * i));
    before.add("hbm/op:read/engine:sm/bytes:4294967296", "hbm_gb_per_s", 4000 * (1 + 1e-5 * i));
    now.add("hbm/op:read/engine:sm/bytes:4294967296", "hbm_gb_per_s", 2000 * (1 + 1e-5 * i));
  }
  const auto regression = judge_regression({now.results()}, baseline_of({before.results()}));
  const auto lines = lines_of(terminal_text(regression));
  EXPECT_EQ(lines[3].rfind("HBM read ", 0), 0u) << lines[3];
  EXPECT_EQ(lines[4].rfind("GEMM bf16, 8192 x 8192 x 8192 (tflops)", 0), 0u) << lines[4];
  EXPECT_TRUE(lines[5].starts_with("1 more figure ") && lines[5].find("--all") != std::string::npos);
  EXPECT_NE(terminal_text(regression, in_full).find("allreduce/dtype:f32/"), std::string::npos);
}

TEST(Terminal, CountsOnlyWhatHasTwoValuesAsCompared) {
  const auto before = nine(700);
  auto now = before;
  now.add("hbm/x:1", "hbm_gb_per_s", 4000).add_error("hbm/x:2", "wrong data");
  const auto lines = lines_of(terminal_text(judge_regression({now.results()}, baseline_of({before.results()}))));
  EXPECT_EQ(lines.back(),
            "REGRESSION: 0 worse, 1 missing, 0 inconclusive, 1 compared (minimal effect 1 %): hbm/x:2 is missing");
}

TEST(Terminal, FitsIntoAWidthIfAsked) {
  const auto lines = lines_of(terminal_text(failing(), {false, 80, true}));
  const auto head = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.rfind("finding ", 0) == 0; });
  const auto row = std::find_if(head, lines.end(), [](const auto& l) { return l.rfind("gemm/", 0) == 0; });
  ASSERT_LT(row - head, lines.end() - head - 1);
  for (auto line = head; line != row + 3; ++line) EXPECT_LE(line->size(), 80u) << *line;
  EXPECT_EQ(row->rfind("gemm/dtype:bf16/ ", 0), 0u) << *row;
  EXPECT_EQ(row[1].rfind("  m:8192/n:8192/k:8192 ", 0), 0u) << "nothing is lost: " << row[1];
  EXPECT_NE(row->find("min 620"), std::string::npos) << *row;
}

TEST(Terminal, AlignsNamesThatAreNotAscii) {
  ResultsBuilder builder(2);
  for (auto& rank : builder.context.ranks) rank.host = "n\u00f6rd\u00e9.rack-7.example";
  for (auto& host : builder.context.inventory) host.host = builder.context.ranks[0].host;
  builder.add(gemm, "tflops", 600, {700, 600});
  const auto lines = lines_of(terminal_text(
      judge({builder.results()},
            profile("  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 620, source: s}\n"), {})));
  const auto column = [](const std::string& line, const std::string& word) {
    return std::count_if(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(line.find(word)),
                         [](char c) { return (c & 0xc0) != 0x80; });
  };
  const auto row = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.rfind("GEMM bf16", 0) == 0; });
  ASSERT_NE(row->find("rank 1 n\u00f6rd\u00e9.rack-7.example"), std::string::npos) << *row;
  const auto head = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.rfind("finding ", 0) == 0; });
  ASSERT_NE(head, lines.end());
  EXPECT_EQ(column(*row, "min 620"), column(*head, "limit"));
}

TEST(Terminal, LetsNoHostNameMoveTheCursor) {
  ResultsBuilder builder;
  for (auto& rank : builder.context.ranks) rank.host = "node\033[2J\r";
  for (auto& host : builder.context.inventory) host.host = builder.context.ranks[0].host;
  builder.add_error(gemm, "said \033]0;x\a");
  const std::string text = terminal_text(judge({builder.results()}, {}, {}));
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(VerdictJson, CanBeGreppedAndParsed) {
  const std::string text = verdict_json(failing());
  EXPECT_NE(text.find("\"verdict\": \"fail\""), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["passed"], 7);
  EXPECT_EQ(json["total"], 8);
  EXPECT_EQ(json["profile"], "test");
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["hosts"], 1);
  EXPECT_EQ(json["run_ids"][0], "run-1");
  const auto& finding = json["findings"][7];
  EXPECT_EQ(finding["key"], gemm);
  EXPECT_EQ(finding["status"], "fail");
  EXPECT_EQ(finding["value"], 600);
  EXPECT_EQ(finding["limit"], 620);
  EXPECT_EQ(finding["worst"]["rank"], 3);
  EXPECT_EQ(finding["worst"]["uuid"], "GPU-1003");
  EXPECT_EQ(finding["offenders"].size(), 2u);
  EXPECT_EQ(finding["source"], "a paper");
}

TEST(VerdictJson, CarriesTheCulprits) {
  Verdict verdict = failing();
  verdict.culprits[0].places[0].serial = "1650";
  const auto json = nlohmann::json::parse(verdict_json(verdict));
  ASSERT_EQ(json["culprits"].size(), 2u);
  const auto& culprit = json["culprits"][0];
  EXPECT_EQ(culprit["causes"], (nlohmann::json{"slow GPU", "power or heat"}));
  EXPECT_EQ(culprit["fails"], true);
  EXPECT_EQ(culprit["places"][0]["rank"], 3);
  EXPECT_EQ(culprit["places"][0]["local_rank"], 3);
  EXPECT_EQ(culprit["places"][0]["serial"], "1650");
  EXPECT_EQ(culprit["evidence"][0]["judgement"], "rule");
  EXPECT_EQ(json["judgements"][1]["judgement"], "peers");
  EXPECT_EQ(json["nodes"][0]["ranks"], 4);
}

TEST(VerdictJson, NamesEveryStateInLowerCase) {
  for (const auto& [state, word] : {std::pair{State::pass, "pass"},
                                    {State::no_reference, "no reference"},
                                    {State::incomplete, "incomplete"},
                                    {State::host_only, "host-only"}}) {
    Verdict verdict;
    verdict.state = state;
    EXPECT_NE(verdict_json(verdict).find("\"verdict\": \"" + std::string(word) + "\""), std::string::npos);
  }
}

TEST(VerdictJson, IsStrictJsonWhateverTheValue) {
  Verdict verdict = failing();
  verdict.findings[0].value = 1.0 / 0.0;
  verdict.findings[0].detail = "bad \xff byte";
  EXPECT_TRUE(nlohmann::json::accept(verdict_json(verdict)));
}

TEST(VerdictJson, ReadsBackToTheSameText) {
  const Folder folder;
  const Verdict verdict = failing();
  const Verdict read = read_verdict(folder.write("verdict.json", verdict_json(verdict)));
  EXPECT_EQ(terminal_text(read), terminal_text(verdict));
  EXPECT_EQ(verdict_json(read), verdict_json(verdict));
}

TEST(VerdictJson, IsRecomputedAndNeverBelieved) {
  const Folder folder;
  const std::string text = verdict_json(failing());
  for (const auto& [member, lie] : {std::pair<std::string, nlohmann::json>{"verdict", "pass"},
                                    {"exit_code", 0},
                                    {"passed", 1000},
                                    {"findings", nlohmann::json::array()}}) {
    nlohmann::json document = nlohmann::json::parse(text);
    document[member] = lie;
    try {
      read_verdict(folder.write("verdict.json", document.dump()));
      ADD_FAILURE() << member;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("findings give"), std::string::npos) << error.what();
    }
  }
}

TEST(VerdictJson, RefusesAPassThatItsOwnFiguresOrCulpritsContradict) {
  const Folder folder;
  Verdict honest = failing();
  Diagnosis slow;
  slow.causes = {Cause::slow_gpu};
  honest.culprits = {slow};
  const auto is_bad = [](const Finding& f) { return !f.good(); };
  const auto changed = [&](auto change) {
    Verdict verdict = honest;
    change(*std::find_if(verdict.findings.begin(), verdict.findings.end(), is_bad), verdict);
    conclude(verdict);
    EXPECT_EQ(verdict.exit_code, 0);
    return input_error_of([&] { read_verdict(folder.write("verdict.json", verdict_json(verdict))); });
  };
  const auto expect_refused = [](const std::string& error, const std::string& why) {
    EXPECT_NE(error.find(why + "; judge the results again"), std::string::npos) << error;
  };
  const std::string own = "findings: the pass of " + gemm + " tflops contradicts its own figures";
  expect_refused(changed([](Finding& f, Verdict&) { f.status = Status::pass; }), own);
  expect_refused(changed([](Finding& f, Verdict& verdict) {
                   f.status = Status::pass;
                   f.offenders = {};
                   f.offender_count = 0;
                   verdict.culprits = {};
                 }),
                 own);
  const std::string culprit = "culprits: a culprit fails but no finding does";
  expect_refused(changed([](Finding& f, Verdict&) { f.severity = Severity::warn; }), culprit);
  expect_refused(changed([&](Finding&, Verdict& verdict) { std::erase_if(verdict.findings, is_bad); }), culprit);
  EXPECT_EQ(changed([](Finding& f, Verdict& verdict) {
              f.severity = Severity::warn;
              verdict.culprits[0].fails = false;
            }),
            "")
      << "information may be shown";
}

TEST(VerdictJson, RefusesEachChangeOfWhatWasWritten) {
  const Folder folder;
  const auto written = nlohmann::json::parse(verdict_json(failing()));
  const auto refusal = [&](auto change) {
    auto document = written;
    change(document);
    return input_error_of([&] { read_verdict(folder.write("verdict.json", document.dump())); });
  };
  const auto first_bad = [](nlohmann::json& document) -> nlohmann::json& {
    return *std::find_if(document["findings"].begin(), document["findings"].end(),
                         [](const auto& f) { return f["status"] == "fail"; });
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_NE(refusal([&](auto& d) { first_bad(d)["detail"] = "another"; }).find("was changed"), std::string::npos);
  EXPECT_NE(refusal([](auto& d) { d["ranks"] = 8, d["verdict"] = d["verdict"]; }), "");
  EXPECT_NE(refusal([](auto& d) { d["nodes"] = nlohmann::json::array(); }).find("was changed"), std::string::npos);
  EXPECT_NE(refusal([](auto& d) { d["findings"].erase(0); }), "");
  EXPECT_NE(refusal([](auto& d) { d.erase("sha256"); }).find("has no \"sha256\""), std::string::npos);
}

TEST(VerdictJson, SaysWhetherTheResultsNextToItAreThoseThatWereJudged) {
  const Folder folder;
  const auto file = folder.write("gemm.json", ResultsBuilder().add(gemm, "tflops", 700).text());
  const Verdict verdict = judge(Measured(read_results(std::vector{file})), {}, {});
  const auto stored = folder.write("verdict.json", verdict_json(verdict));
  EXPECT_EQ(read_stored_verdict(stored).notes.back(),
            "from a stored verdict; the results next to it are those that were judged");
  folder.write("gemm.json", ResultsBuilder().add(gemm, "tflops", 701).text());
  EXPECT_NE(input_error_of([&] { read_stored_verdict(stored); }).find("is not the file that verdict.json judged"),
            std::string::npos);
  std::filesystem::remove(file);
  EXPECT_TRUE(read_stored_verdict(stored).notes.back().ends_with("not read"));
  folder.write("gemm.json", ResultsBuilder().add(gemm, "tflops", 700).text());
  EXPECT_NE(input_error_of([&] { read_verdict(file); }).find("--results"), std::string::npos);
}

TEST(VerdictJson, RefusesABrokenFile) {
  const Folder folder;
  EXPECT_THROW(read_verdict(folder.path() / "none.json"), InputError);
  EXPECT_THROW(read_verdict(folder.write("a.json", "{\"schema\": 1")), InputError);
  EXPECT_THROW(read_verdict(folder.write("b.json", "{\"schema\": 9}")), InputError);
  EXPECT_THROW(read_verdict(folder.write("c.json", "{\"schema\": 1}")), InputError);
}

}  // namespace
}  // namespace shakedown::terminal_test
