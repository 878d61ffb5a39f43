// Tests real result files with the shipped profiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown::samples_test {
namespace {

const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;

/// Returns the shipped profiles without rules for benchmarks that are newer than this sample.
std::vector<Profile> profiles_for(const std::string& sample) {
  std::set<std::string> measured;
  for (const auto& results : read_results(std::vector{source / "tests/data" / sample})) {
    for (const auto& row : results.rows) {
      measured.insert(row.key);
      measured.insert(std::regex_replace(row.key.text(), std::regex("/src:[0-9]+/dst:[0-9]+/"), "/src:*/dst:*/"));
      measured.insert(std::regex_replace(row.key.text(), std::regex("(shift|rank):[0-9]+"), "$1:*"));
    }
  }
  auto profiles = load_profiles(source / "thresholds");
  for (auto& profile : profiles) {
    std::erase_if(profile.rules, [&](const Rule& rule) { return !measured.contains(rule.benchmark); });
  }
  return profiles;
}

Verdict judged(const std::string& sample, const std::vector<Profile>& profiles) {
  return judge(read_results(std::vector{source / "tests/data" / sample}), profiles, {});
}

TEST(RealResults, OfFourH200Pass) {
  const auto verdict = judged("h200-sxm-4ranks", profiles_for("h200-sxm-4ranks"));
  EXPECT_EQ(verdict_line(verdict), "VERDICT: PASS 61/61 (profile h200-sxm, 4 ranks)");
  EXPECT_EQ(verdict.exit_code, 0);
}

// One product was sampled without rests, so one of the two GPUs had a lower clock at the power limit. Healthy chips
// show that, so the spread does not fail.
TEST(RealResults, OfTwoH200BehindAMaskPassWithAProductThatWasSampledWithoutRests) {
  const auto verdict = judged("h200-sxm-2ranks", profiles_for("h200-sxm-2ranks"));
  EXPECT_EQ(verdict_line(verdict), "VERDICT: PASS 40/40 (profile h200-sxm, 2 ranks)");
  const auto finding =
      std::find_if(verdict.findings.begin(), verdict.findings.end(), [](const Finding& f) { return !f.good(); });
  ASSERT_NE(finding, verdict.findings.end());
  EXPECT_EQ(finding->key, "gemm/dtype:bf16/m:16384/n:16384/k:16384");
  EXPECT_EQ(finding->severity, Severity::warn);
}

TEST(RealResults, StoredAsBaselinesPassWholeAgainstTheShippedRules) {
  const auto profiles = load_profiles(source / "thresholds");
  const std::string quick = ", 12 of 14 families judged)";
  const std::string in_part = " families in part, as asked)", requested = ", 4 of 20" + in_part;
  JudgeOptions options;
  options.mixed_runs = true;  // rows on request were measured by one program each
  const std::map<std::string, std::string> verdicts{
      {"h200-sxm/1ranks", "VERDICT: PASS 82/82 (profile h200-sxm, 1 rank" + quick},
      {"h200-sxm/1ranks_full", "VERDICT: PASS 122/122 (profile h200-sxm, 1 rank)"},
      {"h200-sxm/2ranks", "VERDICT: PASS 121/121 (profile h200-sxm, 2 ranks" + quick},
      {"h200-sxm/4ranks", "VERDICT: PASS 135/135 (profile h200-sxm, 4 ranks" + quick},
      {"h200-sxm/1ranks_requested", "VERDICT: PARTIAL 15/15 (profile h200-sxm, 1 rank" + requested},
      {"h200-sxm/1ranks_finetune", "VERDICT: PARTIAL 10/10 (profile h200-sxm, 1 rank, 1 of 20" + in_part},
      {"h200-sxm/2ranks_requested", "VERDICT: PARTIAL 11/11 (profile h200-sxm, 2 ranks, 1 of 20" + in_part},
      {"h200-sxm/4ranks_requested", "VERDICT: PARTIAL 13/13 (profile h200-sxm, 4 ranks, 2 of 20" + in_part},
      {"h100-sxm/1ranks_requested", "VERDICT: PARTIAL 15/15 (profile h100-sxm, 1 rank" + requested},
      {"h100-sxm/1ranks_finetune", "VERDICT: PARTIAL 10/10 (profile h100-sxm, 1 rank, 1 of 20" + in_part},
      {"h100-sxm/1ranks", "VERDICT: PASS 76/76 (profile h100-sxm, 1 rank" + quick},
      {"h100-sxm/1ranks_full", "VERDICT: PASS 90/90 (profile h100-sxm, 1 rank)"},
      {"h100-sxm/4ranks", "VERDICT: PASS 98/98 (profile h100-sxm, 4 ranks" + quick}};
  int launches = 0;
  for (const auto& model : std::filesystem::directory_iterator(source / "ci/baselines")) {
    for (const auto& ranks : std::filesystem::directory_iterator(model)) {
      const std::string kind = ranks.path().lexically_relative(source / "ci/baselines");
      ASSERT_TRUE(verdicts.contains(kind)) << kind;
      for (const auto& launch : std::filesystem::directory_iterator(ranks)) {
        ++launches;
        EXPECT_EQ(verdict_line(judge(read_results(std::vector{launch.path()}), profiles, options)), verdicts.at(kind))
            << launch.path();
      }
    }
  }
  EXPECT_EQ(launches, 69);
}

/// A stored launch in which rank 2 was throttled and has this counter in all watched rows.
Verdict with(const Throttle& throttle, const ErrorCounts& errors) {
  auto files = read_results(std::vector{source / "tests/data/h200-sxm-4ranks-full/1"});
  for (auto& file : files) {
    for (auto& row : file.rows) {
      if (!row.by_rank.contains("throttled")) continue;
      row.errors_rows = static_cast<int>(file.rows.size());
      for (const auto& [reason, part] : throttle) row.throttle[reason] = {0, 0, part, 0};
      for (const auto& [counter, count] : errors) row.errors[counter] = {0, 0, count, 0};
    }
  }
  return judge(files, load_profiles(source / "thresholds"), {});
}

TEST(RealResults, WithErrorsOrASlowdownOfOneGpuFailAndNameIt) {
  for (const auto& verdict : {with({}, {{"ecc_uncorrected", 2}, {"xid_79", 1}, {"nvlink_3_crc", 5000}}),
                              with({{"sw_power_cap", 1}, {"hw_slowdown", 1}, {"hw_thermal", 1}}, {})}) {
    EXPECT_EQ(verdict_line(verdict), "VERDICT: FAIL 185/186 (profile h200-sxm, 4 ranks)");
    const auto finding = std::find_if(verdict.findings.begin(), verdict.findings.end(),
                                      [](const Finding& f) { return f.counts() && !f.good(); });
    ASSERT_NE(finding, verdict.findings.end());
    EXPECT_EQ(finding->worst->rank, 2);
  }
  EXPECT_EQ(with({}, {{"nvlink_3_crc", 5000}}).exit_code, 0) << "a warning";
}

Verdict preflight_of(const std::string& machine) {
  JudgeOptions options;
  options.families = {{"preflight"}};
  return judge({read_results(source / "tests/data/preflight" / (machine + ".json"))},
               load_profiles(source / "thresholds"), options);
}

TEST(RealResults, OfAFamilyThatQuickWaivesOrOneHostHasNotAreNoPassByThemselves) {
  const auto run = read_results(std::vector{source / "ci/baselines/h200-sxm/1ranks/4"});
  for (const auto* family : {"train_step", "checkpoint", "pairs"}) {
    JudgeOptions options;
    options.families = {{family}};
    EXPECT_EQ(judge({run}, load_profiles(source / "thresholds"), options).state, State::no_reference) << family;
  }
}

TEST(RealFacts, OfOneTwoAndFourH200Pass) {
  EXPECT_TRUE(verdict_line(preflight_of("h200-sxm-1rank"))
                  .starts_with("VERDICT: FIT 36/36 (profile h200-sxm, 1 rank, 1 of 18 families"));
  EXPECT_TRUE(verdict_line(preflight_of("h200-sxm-2ranks"))
                  .starts_with("VERDICT: FIT 37/37 (profile h200-sxm, 2 ranks, 1 of 18 families"));
  EXPECT_TRUE(verdict_line(preflight_of("h200-sxm-4ranks"))
                  .starts_with("VERDICT: FIT 37/37 (profile h200-sxm, 4 ranks, 1 of 18 families"));
}

TEST(RealFacts, OfRanksThatWerePinnedToOneCoreFail) {
  const auto verdict = preflight_of("h200-sxm-4ranks-pinned");
  EXPECT_TRUE(verdict_line(verdict).starts_with("VERDICT: FAIL 36/37 (profile h200-sxm, 4 ranks, 1 of 18 families"));
  const auto finding = std::find_if(verdict.findings.begin(), verdict.findings.end(),
                                    [](const Finding& f) { return f.counts() && !f.good(); });
  ASSERT_NE(finding, verdict.findings.end());
  EXPECT_TRUE(finding->detail.starts_with("4 ranks "));
}

TEST(RealResults, OfOneH200BehindAMaskPass) {
  const auto verdict = judged("h200-sxm-1rank", profiles_for("h200-sxm-1rank"));
  EXPECT_EQ(verdict_line(verdict), "VERDICT: PASS 26/26 (profile h200-sxm, 1 rank)");
}

TEST(RealResults, OfAHostAreNeverAPass) {
  const auto verdict = judged("host-2ranks", profiles_for("host-2ranks"));
  EXPECT_EQ(verdict_line(verdict), "VERDICT: HOST-ONLY 29/29 (profile host, 2 ranks)");
}

TEST(RealResults, BelowAFloorNameTheRanksTheWorstFirst) {
  auto profiles = profiles_for("h200-sxm-4ranks");
  const std::string key = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
  for (auto& profile : profiles) {
    for (auto& rule : profile.rules) {
      if (rule.benchmark == key) rule.limits.min = 900;
    }
  }
  const auto verdict = judged("h200-sxm-4ranks", profiles);
  EXPECT_EQ(verdict_line(verdict), "VERDICT: FAIL 60/61 (profile h200-sxm, 4 ranks)");
  EXPECT_EQ(verdict.exit_code, 1);
  const auto finding =
      std::find_if(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& f) { return f.key == key; });
  ASSERT_NE(finding, verdict.findings.end());
  EXPECT_EQ(finding->status, Status::fail);
  EXPECT_EQ(finding->offender_count, 4u);
  EXPECT_EQ(text(finding->offenders.front()), "rank 2 vm GPU-760feb5d-05d6-696d-e8ad-05d3dd699a2f 0000:00:08.0");
}

TEST(RealResults, WithOneFileMissingFail) {
  std::vector<std::filesystem::path> files;
  for (const auto* family : {"gemm", "hbm", "allreduce"}) {
    files.push_back(source / "tests/data/h200-sxm-4ranks" / (std::string(family) + ".json"));
  }
  const auto verdict = judge(read_results(files), profiles_for("h200-sxm-4ranks"), {});
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_TRUE(std::any_of(verdict.findings.begin(), verdict.findings.end(),
                          [](const Finding& f) { return f.status == Status::missing && f.key.family() == "p2p"; }));
}

}  // namespace
}  // namespace shakedown::samples_test
