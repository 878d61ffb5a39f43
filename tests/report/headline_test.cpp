// Tests that every output of a FAIL names the part at fault in the same words, with faults in generated fleets and in a
// stored run.
#include "thresholds/judge/headline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/text.hpp"
#include "report/node_commands.hpp"
#include "report/outputs.hpp"
#include "report/rehearsal_outcome.hpp"
#include "report/terminal.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/nodes.hpp"

namespace shakedown::headline_test {
namespace {

const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;

using testing_support::shipped_profiles;

struct Failed {
  std::string name;   // of the fault
  std::string place;  // words that every output must have
  Judged judged;
};

// The host and the serial number; of a whole host, or of one of its NICs, the host.
Failed with_planted(const std::string& faults, int hosts) {
  using rehearsal::Fleet, rehearsal::Order;
  Order order;
  order.shape.hosts = hosts;
  order.noise = rehearsal::read_noise(source / "thresholds/rehearsal/noise/calm.yaml");
  order.seed = 501;
  order.faults = rehearsal::placed(rehearsal::parse_faults(faults), order.shape, order.seed);
  const Fleet fleet(order);
  const rehearsal::Fault& fault = order.faults.front();
  const auto results = fleet.results();
  Failed failed{faults, fleet.machine().hosts[static_cast<std::size_t>(fault.host)].name, {}};
  if (fault.is_of_gpu()) {
    const auto rank = static_cast<std::size_t>(fault.host * order.shape.gpus + fault.local);
    failed.place += " GPU " + std::to_string(fault.local) + " (rank " + std::to_string(rank) + ", serial ";
  }
  failed.judged.measured = std::make_unique<const Measured>(results);
  failed.judged.profiles = shipped_profiles();
  failed.judged.verdict = rehearsal::judge_fleet(fleet, shipped_profiles());
  return failed;
}

Failed with_fact(const std::string& key, const std::string& metric, double worst, const std::string& place) {
  Failed failed{metric, place, {}};
  failed.judged.measured = std::make_unique<const Measured>(testing_support::stored_run_with(key, metric, worst));
  failed.judged.profiles = shipped_profiles();
  failed.judged.verdict = judge(*failed.judged.measured, References(shipped_profiles()), {});
  return failed;
}

const std::vector<Failed>& failed_runs() {
  static const std::vector<Failed> runs = [] {
    std::vector<Failed> made;
    for (const char* const fault : {"gemm:0.05", "hbm:0.12", "gpu:0.1", "link:0.2", "lane:0.05", "sustained:0.05"}) {
      made.push_back(with_planted(fault, 1));
    }
    for (const char* const fault : {"nic:0.5", "host:0.1"}) made.push_back(with_planted(fault, 4));
    made.push_back(with_fact("preflight/of:host", "gpus_missing", 1, "vm"));
    made.push_back(with_fact("preflight/of:gpu", "ecc_uncorrected", 3, "vm GPU 1 (rank 1, GPU-"));
    made.push_back(with_fact("preflight/of:gpu", "remap_pending", 1, "vm GPU 1 (rank 1, GPU-"));
    return made;
  }();
  return runs;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Headline, OfAFailNamesThePartAtFaultAndTheNextStep) {
  for (const Failed& run : failed_runs()) {
    const Headline headline = headline_of(run.judged.verdict);
    EXPECT_EQ(headline.state, State::fail) << run.name;
    EXPECT_EQ(headline.fault.where.rfind(run.place, 0), 0u) << run.name << ": " << headline.fault.where;
    EXPECT_NE(headline.fault.next, "") << run.name;
    EXPECT_EQ(text(headline).rfind("FAIL " + run.place, 0), 0u) << run.name << ": " << text(headline);
  }
}

TEST(Headline, IsTheFirstLineOnTheTerminalAndOneOfTheLastTwo) {
  for (const Failed& run : failed_runs()) {
    const auto lines = lines_of(terminal_text(run.judged.verdict));
    const std::string headline = text_and_next(headline_of(run.judged.verdict));
    ASSERT_GE(lines.size(), 2u);
    EXPECT_EQ(lines.front(), headline) << run.name;
    EXPECT_EQ(lines[lines.size() - 2], headline) << run.name;
    EXPECT_EQ(lines.back(), verdict_line(run.judged.verdict)) << run.name;
  }
}

TEST(Headline, IsInEveryOutputThatShowsAVerdict) {
  for (const Failed& run : failed_runs()) {
    for (const Output<Judged>& output : outputs<Judged>()) {
      const std::string flag = output.flag;
      if (flag == "--github-benchmark" || flag == "--bencher" || flag == "--superbench") continue;  // figures only
      EXPECT_NE(output.text(run.judged).find(run.place), std::string::npos) << run.name << " " << flag;
    }
    const std::string drain = scontrol_commands(decide_nodes(run.judged.verdict));
    EXPECT_NE(drain.find("reason='shakedown: " + run.place), std::string::npos) << run.name << ": " << drain;
  }
}

TEST(Headline, FitsOneScreenTogetherWithTheCauseOfAFail) {
  for (const Failed& run : failed_runs()) {
    EXPECT_LE(lines_of(terminal_text(run.judged.verdict)).size(), 45u) << run.name;
  }
}

TEST(Headline, OfAPassSaysWhatWasJudgedInOneScreen) {
  for (const char* const run : {"h200-sxm/2ranks/1", "h200-sxm/4ranks/1", "h100-sxm/4ranks/1", "h200-sxm/1ranks/4"}) {
    const Measured measured(read_results(std::vector{source / "ci/baselines" / run}));
    const Verdict verdict = judge(measured, References(shipped_profiles()), {});
    EXPECT_EQ(text(headline_of(verdict)).rfind("PASS preflight, jitter, ", 0), 0u) << text(headline_of(verdict));
    EXPECT_EQ(headline_of(verdict).fault.next, "");
    constexpr std::size_t lines_of_a_screen = 24;
    EXPECT_LE(lines_of(terminal_text(verdict)).size(), lines_of_a_screen) << run << "\n" << terminal_text(verdict);
    // On 80 columns a family has one line of the table, because long names are left out.
    const auto narrow = lines_of(terminal_text(verdict, {false, 80, false}));
    EXPECT_LE(narrow.size(), lines_of_a_screen) << run;
    const auto gemm = std::find_if(narrow.begin(), narrow.end(), [](auto& line) { return line.starts_with("gemm "); });
    ASSERT_NE(gemm, narrow.end()) << run;
    EXPECT_LE(gemm->size(), 80u) << *gemm;
    EXPECT_NE(gemm->find(" GPUs"), std::string::npos) << *gemm;
  }
}

TEST(Headline, OfAPassIsFollowedByItsWarningsInOneLineEach) {
  const Measured measured(read_results(std::vector{source / "ci/baselines/h200-sxm/4ranks/1"}));
  const std::string text = terminal_text(judge(measured, References(shipped_profiles()), {}));
  EXPECT_NE(
      text.find("\n\ninfo: preflight/of:host costly_settings: 2, limit equals 0, vm: gdrcopy, NCCL_NVLS_ENABLE; next: "
                "ssh vm shakedown inventory settings\nwarn: preflight/of:gpu pcie_replays: 1, limit equals 0, "
                "rank 3 vm GPU-fb4ffd17\n\nfigure "),
      std::string::npos)
      << text;
}

TEST(Headline, CountsTheOtherFaults) {
  const Failed run = with_planted("hbm:0.04+link:0.2", 1);
  EXPECT_EQ(headline_of(run.judged.verdict).more, 1u);
  EXPECT_NE(text(headline_of(run.judged.verdict)).find("; 1 more fault"), std::string::npos);
}

TEST(Headline, OfAVirtualRunCountsNoFaults) {
  auto files = read_results(std::vector{source / "ci/baselines/h200-sxm/2ranks/1"});
  for (Results& file : files) {
    file.context.backend = Backend::virtual_gpu;
    std::erase_if(file.rows, [](const Row& row) { return row.key.family() == "hbm"; });
  }
  const Verdict verdict = judge(Measured(files), References(shipped_profiles()), {});
  EXPECT_GT(std::count_if(verdict.findings.begin(), verdict.findings.end(),
                          [](const Finding& f) { return f.counts() && !f.good(); }),
            1);
  const Headline headline = headline_of(verdict);
  EXPECT_EQ(headline.state, State::virtual_run);
  EXPECT_EQ(headline.more, 0u) << text(headline);
}

TEST(Headline, OfARunWithoutAVerdictSaysWhy) {
  Verdict verdict;
  verdict.notes.push_back("gemm.json: is cut off\nsecond line \033");
  EXPECT_EQ(text(headline_of(verdict)), "INCOMPLETE gemm.json: is cut off second line ?");
}

TEST(Headline, OfADriverThatDoesNotAnswerPutsItBeforeWhatIsSlow) {
  Failed run = with_planted("hbm:0.12", 1);
  Finding hung;
  classify(hung, Code::driver_answers);
  hung.key = machine_key(Code::driver_answers).set("host", "node3");
  hung.status = Status::fail;
  hung.detail = "the driver does not answer: nvmlInit, 15 s";
  hung.offenders = {host_culprit("node3")};
  hung.offender_count = 1;
  run.judged.verdict.findings.push_back(hung);
  EXPECT_EQ(text(headline_of(run.judged.verdict)),
            "FAIL node3: the driver does not answer: nvmlInit, 15 s; 1 more fault");
}

TEST(Headline, OfAMeasurementWithoutAValueGivesNoLimit) {
  Verdict verdict;
  Finding finding;
  classify(finding, Code::error);
  finding.key = Key("gemm/dtype:bf16/m:8192/n:8192/k:8192");
  finding.metric = "tflops";
  finding.limit = Limit{LimitKind::min, 715};
  finding.detail = "wrong data on rank 3";
  finding.status = Status::fail;
  verdict.findings = {finding};
  EXPECT_TRUE(headline_of(verdict).fault.what.ends_with("(tflops): wrong data on rank 3"));
  verdict.findings.front().status = Status::missing;
  verdict.findings.front().detail = "was not measured";
  EXPECT_TRUE(headline_of(verdict).fault.what.starts_with("GEMM bf16, 8192 x 8192 x 8192 (tflops) is missing: "));
}

TEST(Headline, PutsAFactThatFailsBeforeWhatIsMissing) {
  Verdict verdict;
  Finding missing, fact;
  classify(missing, Code::gpus);
  missing.key = machine_key(Code::gpus);
  missing.status = Status::missing;
  missing.detail = "3 GPUs of node3 measured, it has 4";
  classify(fact, Code::fact);
  fact.key = Key("preflight/of:host");
  fact.metric = "gpus_missing";
  fact.status = Status::fail;
  fact.value = 1;
  fact.offenders = {host_culprit("node3")};
  fact.offender_count = 1;
  verdict.findings = {missing, fact};
  EXPECT_EQ(text(headline_of(verdict).fault), "node3: gpus_missing is 1");
  verdict.findings.pop_back();
  EXPECT_TRUE(text(headline_of(verdict).fault).starts_with("3 GPUs of node3 "));
}

TEST(Shortened, EndsAfterAWholeWord) {
  EXPECT_EQ(shortened("slow GPU, 12 % off", 40), "slow GPU, 12 % off");
  EXPECT_EQ(shortened("slow GPU, 12 % off", 14), "slow GPU,...");
  EXPECT_EQ(shortened("slow-GPU-12", 8), "slow-...");
  EXPECT_EQ(shortened("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4", 6), "\xC3\xA4...");
}

}  // namespace
}  // namespace shakedown::headline_test
