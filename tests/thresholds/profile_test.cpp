// Tests which profiles are accepted, and the messages and places of refusals.
#include "thresholds/rules/profile.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/applicability.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/temporary_folder.hpp"

namespace shakedown::profile_test {
namespace {

namespace fs = std::filesystem;

class Thresholds : public ::testing::Test {
 protected:
  fs::path write(const std::string& text, const std::string& name = "test.yaml") const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::vector<Profile> load(const std::string& text) const { return load_profiles(write(text)); }

  // Returns the message of the refusal; empty if the text is accepted.
  std::string refusal(const std::string& text) const {
    const fs::path file = write(text);
    try {
      load_profiles(file);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  std::string refusal_of_rule(const std::string& text) const { return refusal(head + "rules:\n  - {" + text + "}\n"); }

  // True if a text is refused at the place that '^' marks, with `part` in the message.
  ::testing::AssertionResult refuses(std::string text, const std::string& part) const {
    const auto mark = text.find('^');
    if (mark == std::string::npos) return ::testing::AssertionFailure() << "the test marks no place";
    text.erase(mark, 1);
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(mark), '\n') + 1;
    const auto column = mark - (mark == 0 ? 0 : text.rfind('\n', mark - 1) + 1) + 1;  // npos + 1 is 0
    const std::string place =
        (folder_ / "test.yaml").string() + ":" + std::to_string(line) + ":" + std::to_string(column) + ": ";
    const std::string message = refusal(text);
    if (message.rfind(place, 0) == 0 && message.find(part) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "\"" << message << "\" does not say \"" << part << "\" at " << place;
  }
  ::testing::AssertionResult refuses_rule(const std::string& text, const std::string& part) const {
    return refuses(head + "rules:\n  - {" + text + "}\n", part);
  }

  const std::string head =
      "schema: 2\n"
      "profile: test\n"
      "match: {backend: cuda, device: \"NVIDIA H200\"}\n"
      "peak: {bf16_tflops: 989.4, hbm_gb_per_s: 4800, nvlink_gb_per_s: 450, source: s}\n";
  const std::string rule = "benchmark: \"gemm/dtype:bf16/m:1/n:1/k:1\", metric: tflops, every: rank, source: s";

  const TemporaryFolder own_;
  const fs::path folder_ = own_.path();
};

TEST_F(Thresholds, ReadsEveryKeyOfARule) {
  const auto profiles = load(head +
                             "unjudged: [collectives]\n"
                             "rules:\n"
                             "  - {benchmark: \"gemm/dtype:bf16/m:1/n:1/k:1\", metric: tflops, every: rank, min: 650, "
                             "max: 900, spread_max: 0.08, cv_max: 0.1, ranks: [2, 8], hosts: 3, nvls: on, tier: full, "
                             "may_waive: true, severity: warn, source: \"a paper\"}\n");
  ASSERT_EQ(profiles.size(), 1u);
  const Profile& profile = profiles[0];
  EXPECT_EQ(profile.name, "test");
  EXPECT_EQ(profile.match.devices, std::vector<std::string>{"NVIDIA H200"});
  EXPECT_EQ(profile.unjudged, std::vector<std::string>{"collectives"});
  EXPECT_DOUBLE_EQ(profile.peak.at("hbm_gb_per_s"), 4800);
  ASSERT_EQ(profile.rules.size(), 1u);
  const Rule& r = profile.rules[0];
  EXPECT_EQ(r.every, Every::rank);
  EXPECT_EQ(r.limits.min, 650);
  EXPECT_EQ(r.limits.max, 900);
  EXPECT_EQ(r.limits.spread_max, 0.08);
  EXPECT_EQ(r.limits.cv_max, 0.1);
  EXPECT_EQ(r.conditions.ranks.low, 2);
  EXPECT_EQ(r.conditions.ranks.high, 8);
  EXPECT_EQ(r.conditions.hosts.low, 3);
  EXPECT_EQ(r.conditions.hosts.high, 3);
  EXPECT_EQ(r.conditions.nvls, true);
  EXPECT_EQ(r.conditions.tier, Tier::full);
  EXPECT_TRUE(r.may_waive);
  EXPECT_EQ(r.severity, Severity::warn);
  EXPECT_EQ(r.source, "a paper");
  EXPECT_EQ(r.at, (folder_ / "test.yaml").string() + ":7");
}

TEST_F(Thresholds, HoldAnywhereUnlessTheRuleSaysWhere) {
  const auto profiles = load(head + "rules:\n  - {" + rule + ", min: 1}\n");
  EXPECT_TRUE(profiles[0].rules[0].conditions.hosts.contains(1));
  EXPECT_TRUE(profiles[0].rules[0].conditions.hosts.contains(1000));
  EXPECT_TRUE(profiles[0].rules[0].conditions.ranks.contains(10000));
}

TEST_F(Thresholds, TakeALimitFromAReferenceAndItsMargin) {
  const auto profiles = load(head + "rules:\n  - {" + rule +
                             ", reference: 764, margin: 0.10, samples_min: 10}\n"
                             "  - {benchmark: \"allreduce/dtype:f32/bytes:8\", metric: latency_us, every: run, "
                             "reference: 8, margin: 0.25, source: s}\n"
                             "  - {benchmark: \"allreduce/dtype:f32/bytes:32\", metric: latency_us, every: run, "
                             "reference: 14.5, margin: 2, source: s}\n"
                             "  - {benchmark: \"gemm/dtype:f32/m:8192/n:8192/k:8192\", metric: tflops, every: rank, "
                             "reference: 51.1, margin: 0.08023, source: s}\n");
  EXPECT_EQ(profiles[0].rules[2].limits.max, 43.5) << "three times as long";
  EXPECT_EQ(profiles[0].rules[3].limits.min, 47.0) << "51.1 * 0.91977 = 47.000247, which a verdict prints as 47";
  EXPECT_DOUBLE_EQ(*profiles[0].rules[0].limits.min, 764 * 0.9);
  EXPECT_EQ(profiles[0].rules[0].limits.samples_min, 10);
  EXPECT_FALSE(profiles[0].rules[0].limits.max);
  EXPECT_DOUBLE_EQ(*profiles[0].rules[1].limits.max, 8 * 1.25);
  EXPECT_FALSE(profiles[0].rules[1].limits.min);
}

TEST_F(Thresholds, RefuseAReferenceThatIsNoLimit) {
  EXPECT_TRUE(refuses_rule(rule + ", min: ^0", "cannot fail"));
  EXPECT_TRUE(refuses_rule(rule + ", min: 1, at_least: ^\"5\"", "write min"));
  EXPECT_TRUE(refuses_rule(rule + ", min: 1, where: ^ib_ports", "unknown fact"));
  EXPECT_TRUE(refuses_rule(rule + ", reference: ^764", "without \"margin\""));
  EXPECT_TRUE(refuses_rule(rule + ", min: 1, margin: ^0.1", "without \"reference\""));
  EXPECT_TRUE(refuses_rule(rule + ", reference: 764, margin: 0.1, min: ^1", "with reference"));
  EXPECT_TRUE(refuses_rule(rule + ", reference: ^0, margin: 0.1", "above 0"));
  EXPECT_TRUE(refuses_rule(rule + ", reference: 764, margin: ^1", "0 < margin < 1"));
  EXPECT_TRUE(refuses_rule(rule + ", reference: 764, margin: ^0", "above 0"));
  EXPECT_TRUE(refuses_rule(rule + ", reference: ^2000, margin: 0.1", "above the physical ceiling"));
  EXPECT_TRUE(refuses_rule(rule + ", min: 1, samples_min: ^0", "at least 1"));
}

TEST_F(Thresholds, TakeTheRulesOfAnIncludedPartFirst) {
  write(
      "schema: 2\npart: common\nrules:\n"
      "  - {benchmark: \"preflight/of:gpu\", metric: ecc, every: rank, equals: 1, source: s}\n",
      "common.yaml");
  write(head + "gpus_per_host: 8\ninclude: common.yaml\nrules:\n  - {" + rule + ", min: 1}\n");
  const auto profiles = load_profiles(folder_);
  ASSERT_EQ(profiles.size(), 1u) << "a part is no profile";
  ASSERT_EQ(profiles[0].rules.size(), 2u);
  EXPECT_EQ(profiles[0].rules[0].metric, "ecc");
  EXPECT_EQ(profiles[0].rules[0].at, (folder_ / "common.yaml").string() + ":4");
  EXPECT_EQ(profiles[0].gpus_per_host, 8);
}

TEST_F(Thresholds, TakeWhatIsUnjudgedAndRepeatabilityFromPartsUnlessTheProfileSaysOtherwise) {
  const std::string rules =
      "rules:\n  - {benchmark: \"preflight/of:gpu\", metric: ecc, every: rank, equals: 1, source: s}\n";
  write(
      "schema: 2\npart: common\nunjudged: [pcie, p2p]\n"
      "repeatability: {samples_min: 10, cv_max: {gemm: 0.2}, source: s}\n" +
          rules,
      "common.yaml");
  const std::string include = head + "include: common.yaml\n", own = "rules:\n  - {" + rule + ", min: 1}\n";
  const Profile same = load(include + own).front();
  EXPECT_EQ(same.unjudged, (std::vector<std::string>{"pcie", "p2p"}));
  EXPECT_EQ(same.samples_min, 10);
  EXPECT_EQ(same.cv_max.at("gemm"), 0.2);
  const Profile other =
      load(include + "unjudged: [hbm, p2p]\nrepeatability: {samples_min: 5, source: s}\n" + own).front();
  EXPECT_EQ(other.unjudged, (std::vector<std::string>{"pcie", "p2p", "hbm"}));
  EXPECT_EQ(other.samples_min, 5);
  EXPECT_TRUE(other.cv_max.empty());
}

TEST_F(Thresholds, RefuseAPartThatIsNotThereOrSaysTheSame) {
  EXPECT_TRUE(refuses(head + "include: ^none.yaml\nrules: []\n", "none.yaml"));
  EXPECT_TRUE(refuses(head + "include: ^../common.yaml\nrules: []\n", "common.yaml"));
  write("schema: 2\npart: common\nrules:\n  - {" + rule + ", min: 1}\n", "common.yaml");
  EXPECT_TRUE(refuses(head + "include: common.yaml\nrules:\n  - ^{" + rule + ", min: 2}\n", "judges the same value"));
  EXPECT_THROW(load_profiles(folder_ / "common.yaml"), InputError);
  fs::remove(folder_ / "test.yaml");
  EXPECT_THROW(load_profiles(folder_), InputError) << "parts alone judge nothing";
}

TEST_F(Thresholds, RefusesAnUnknownKey) {
  EXPECT_TRUE(refuses_rule(rule + ", ^minimum: 1", "unknown key \"minimum\""));
  EXPECT_TRUE(refuses(head + "^rulez: []\n", "unknown key \"rulez\""));
  EXPECT_TRUE(refuses("schema: 2\nprofile: test\nmatch: {backend: cuda, ^gpu: x}\n", "unknown key"));
}

TEST_F(Thresholds, RefusesADuplicateKeyAtAnyDepth) {
  EXPECT_TRUE(refuses(head + "^schema: 2\n", "duplicate key \"schema\""));
  EXPECT_TRUE(refuses_rule(rule + ", min: 1, ^min: 2", "duplicate key \"min\""));
  EXPECT_TRUE(refuses("schema: 2\nprofile: test\nmatch: {backend: cuda, ^backend: host}\n", "duplicate key"));
}

TEST_F(Thresholds, RefusesTheWrongType) {
  EXPECT_TRUE(refuses_rule(rule + ", min: ^fast", "expected a number, found \"fast\""));
  EXPECT_TRUE(refuses_rule(rule + ", min: ^\"650\"", "without quotes"));
  EXPECT_TRUE(refuses_rule(rule + ", min: ^2900 GB/s", "without quotes, unit"));
  EXPECT_TRUE(refuses_rule(rule + ", min: ^010", "leading zero"));
  EXPECT_TRUE(refuses_rule(rule + ", min: ^[1]", "found a list"));
  EXPECT_TRUE(refuses_rule(rule + ", ^min: ", "found nothing"));
  EXPECT_TRUE(refuses_rule(rule + ", min: 1, ranks: ^2.5", "whole number"));
  EXPECT_TRUE(refuses_rule(rule + ", min: 1, may_waive: ^yes", "choose one of true, false"));
  EXPECT_TRUE(refuses(head + "rules: ^5\n", "a list"));
  EXPECT_TRUE(refuses(head + "rules:\n  - ^5\n", "a map"));
}

TEST_F(Thresholds, RefusesWhatIsNotFinite) {
  for (const char* word : {".nan", ".NaN", "nan", "nan(0)", ".inf", "-.inf", "1e999"}) {
    EXPECT_NE(refusal_of_rule(rule + ", min: " + word), "") << word;
  }
  EXPECT_TRUE(refuses_rule(rule + ", min: ^.nan", "is not finite"));
  EXPECT_TRUE(refuses_rule(rule + ", min: ^-1", "negative"));
}

TEST_F(Thresholds, RefusesAFloorAboveItsPhysicalCeiling) {
  EXPECT_TRUE(refuses_rule(rule + ", min: ^990", "above the physical ceiling 989.4 TFLOPS"));
  const std::string busbw =
      "benchmark: \"allreduce/dtype:f32/bytes:8\", metric: busbw_gb_per_s, every: run, source: s, ";
  EXPECT_EQ(refusal_of_rule(busbw + "ranks: 8, min: 787"), "") << "sums in the switch exceed the link: 2 x 7/8 x 450";
  EXPECT_TRUE(refuses_rule(busbw + "ranks: 8, min: ^788", "787.5 GB/s at 8 ranks"));
  EXPECT_TRUE(refuses_rule(busbw + "min: ^470", "450 GB/s at 2 ranks")) << "must be possible wherever it applies";
}

TEST_F(Thresholds, RefusesARuleWithoutLimitOrSource) {
  EXPECT_TRUE(refuses(head + "rules:\n  - ^{" + rule + "}\n", "a rule without a limit"));
  EXPECT_TRUE(refuses(head + "rules:\n  - ^{" + rule + ", cv_max: 0.1}\n", "cv_max alone"));
  const std::string no_source = "benchmark: \"gemm/x:1\", metric: tflops, every: run, min: 1";
  EXPECT_TRUE(refuses(head + "rules:\n  - ^{" + no_source + "}\n", "without \"source\""));
  EXPECT_TRUE(refuses_rule(no_source + ", source: ^\"\"", "not empty"));
  EXPECT_TRUE(
      refuses("schema: 2\nprofile: test\nmatch: {backend: host}\npeak: ^{hbm_gb_per_s: 1}\n", "without \"source\""));
}

TEST_F(Thresholds, RefusesAProfileWithoutRules) {
  EXPECT_TRUE(refuses("^" + head, "without \"rules\""));
  EXPECT_TRUE(refuses(head + "rules: ^[]\n", "no rules"));
  EXPECT_TRUE(refuses(head + "^rules:\n", "a list"));
  EXPECT_TRUE(refuses("^", "a map"));
}

TEST_F(Thresholds, RefusesAProfileWhoseNameIsNotTheFiles) {
  EXPECT_TRUE(refuses("schema: 2\nprofile: ^other\n", "profile \"other\""));
}

TEST_F(Thresholds, RefusesAnotherSchema) { EXPECT_TRUE(refuses("schema: ^1\nprofile: test\n", "schema 1")); }

TEST_F(Thresholds, RefusesAMetricThatTheFamilyDoesNotHave) {
  EXPECT_TRUE(refuses_rule("benchmark: \"gemm/x:1\", metric: ^busbw_gb_per_s, every: run, min: 1, source: s",
                           "unknown metric \"busbw_gb_per_s\" of gemm"));
  EXPECT_EQ(refusal_of_rule("benchmark: \"lora_step/x:1\", metric: tokens_per_s, every: run, min: 1, source: s"), "");
  EXPECT_EQ(refusal_of_rule("benchmark: \"train_step/x:1\", metric: tokens_per_s, every: run, min: 1, source: s"), "");
  EXPECT_NE(refusal_of_rule("benchmark: \"train_step/x:1\", metric: speed, every: run, min: 1, source: s"), "");
  EXPECT_NE(refusal_of_rule("benchmark: \"lora_step/x:1\", metric: speed, every: run, min: 1, source: s"), "");
}

TEST_F(Thresholds, RefusesLimitsThatNoValueCanMeet) {
  EXPECT_TRUE(refuses_rule(rule + ", min: ^2, max: 1", "min 2 is above max 1"));
  EXPECT_TRUE(refuses_rule(rule + ", min: 2, equals: ^2", "equals with min or max"));
  EXPECT_TRUE(refuses_rule(rule + ", min: 2, ranks: ^[8, 2]", "an impossible interval"));
  EXPECT_TRUE(refuses_rule(rule + ", min: 2, hosts: ^0", "an impossible interval"));
}

TEST_F(Thresholds, RefusesMergeKeysAnchorsAndAliases) {
  EXPECT_NE(refusal(head + "rules: &all\n  - {" + rule + ", min: 1}\n").find("anchors"), std::string::npos);
  EXPECT_NE(refusal_of_rule(rule + ", min: &x 1, max: *x").find("anchors"), std::string::npos);
  EXPECT_TRUE(refuses_rule(rule + ", min: 1, ^<<: {max: 2}", "merge keys"));
  EXPECT_NE(refusal(head + "---\nschema: 2\n").find("second document"), std::string::npos);
}

TEST_F(Thresholds, RefusesBrokenSyntaxWithItsPlace) {
  EXPECT_TRUE(refuses("schema: 2\nrules: [1, 2\n^", "not valid YAML"));
}

TEST_F(Thresholds, RefusesTwoRulesForTheSameValue) {
  const std::string r = "{" + rule + ", min: 1";
  const std::string first = head + "rules:\n  - " + r;
  EXPECT_TRUE(refuses(first + "}\n  - ^" + r + "}\n", "same value"));
  EXPECT_TRUE(refuses(first + ", ranks: [2, 8]}\n  - ^" + r + ", ranks: 4}\n", "same value"));
  EXPECT_EQ(refusal(first + ", ranks: [2, 8]}\n  - " + r + ", ranks: 9}\n"), "");
  EXPECT_EQ(refusal(first + ", nvls: on}\n  - " + r + ", nvls: off}\n"), "");
  EXPECT_EQ(refusal(first + "}\n  - " + r + ", severity: warn}\n"), "") << "a warning before a failure";
}

TEST_F(Thresholds, RefusesARankRuleForACollectiveAndASpreadOfARun) {
  EXPECT_TRUE(refuses_rule("benchmark: \"allreduce/x:1\", metric: latency_us, every: ^rank, max: 1, source: s",
                           "wait for each other"));
  EXPECT_TRUE(refuses_rule("benchmark: \"gemm/x:1\", metric: tflops, every: run, spread_max: ^1, source: s",
                           "spread_max compares ranks"));
}

TEST_F(Thresholds, AcceptsAWildcardOnlyForLocalRanks) {
  const auto of = [&](const std::string& key) {
    return refusal_of_rule("benchmark: \"" + key + "\", metric: copy_gb_per_s, every: rank, min: 1, source: s");
  };
  EXPECT_EQ(of("p2p/op:read/engine:ce/src:*/dst:*/bytes:8"), "");
  EXPECT_EQ(of("p2p/op:read/engine:ce/shift:*/bytes:8"), "");
  EXPECT_EQ(of("pcie/op:h2d/active:one/rank:*/bytes:8"), "");
  EXPECT_NE(of("pcie/op:h2d/rank:*/bytes:8"), "");
  EXPECT_NE(of("p2p/op:read/engine:ce/shift:*/bytes:*"), "");
  EXPECT_NE(of("p2p/op:read/engine:ce/src:0/dst:*/bytes:8"), "");
  EXPECT_NE(of("p2p/op:*/engine:ce/src:*/dst:*/bytes:8"), "");
  EXPECT_NE(of("hbm/op:copy/engine:*/bytes:8"), "");
  EXPECT_NE(of("hbm/*"), "");
}

TEST_F(Thresholds, RefusesWhatIsNotAKey) {
  for (const char* key : {"Gemm/x:1", "gemm/x", "gemm//x:1", "gemm/x:1/", "/x:1", "gemm/x: 1", "machine/ranks:1",
                          "gemm/x:1/manual_time", "gemm/x:1/repeats:3"}) {
    EXPECT_NE(refusal_of_rule("benchmark: \"" + std::string(key) + "\", metric: tflops, every: run, min: 1, source: s"),
              "")
        << key;
  }
}

TEST_F(Thresholds, RefusesAGpuProfileWithoutADevice) {
  EXPECT_TRUE(refuses("schema: 2\nprofile: test\nmatch: ^{backend: cuda}\n", "without \"device\""));
}

TEST_F(Thresholds, ReadsAFolderAndRefusesAnEmptyOne) {
  EXPECT_THROW(load_profiles(folder_), InputError);
  EXPECT_THROW(load_profiles(folder_ / "none.yaml"), InputError);
  write(head + "rules:\n  - {" + rule + ", min: 1}\n");
  EXPECT_EQ(load_profiles(folder_).size(), 1u);
}

TEST(Ceilings, OfTensorCoresRiseWithAClockAboveThatOfTheDataSheet) {
  Profile p;
  p.peak = {{"tf32_tflops", 494.7}, {"f32_tflops", 67}, {"tensor_mhz", 1830}};
  Context context;
  context.world_size = context.hosts = 1;
  context.ranks.resize(1);
  context.ranks[0].sm_mhz_max = 1980;
  EXPECT_NEAR(*ceiling(p.peak, Key("gemm/dtype:tf32/m:1/n:1/k:1"), "tflops", scale_of(context)), 494.7 * 1980 / 1830,
              1e-9);
  EXPECT_EQ(ceiling(p.peak, Key("gemm/dtype:f32/m:1/n:1/k:1"), "tflops", scale_of(context)), 67)
      << "stated at the highest clock";
  context.ranks[0].sm_mhz_max = 1755;
  EXPECT_EQ(ceiling(p.peak, Key("gemm/dtype:tf32/m:1/n:1/k:1"), "tflops", scale_of(context)), 494.7);
}

TEST(Ceilings, FollowTheClosedTable) {
  Profile p;
  p.peak = {{"bf16_tflops", 989.4}, {"f64_tflops", 67}, {"hbm_gb_per_s", 4800}, {"nvlink_gb_per_s", 450}};
  EXPECT_EQ(ceiling(p.peak, Key("gemm/dtype:bf16/m:1/n:1/k:1"), "tflops", {1, 1}), 989.4);
  EXPECT_EQ(ceiling(p.peak, Key("gemm/dtype:f64/m:1/n:1/k:1"), "tflops", {1, 1}), 67);
  EXPECT_EQ(ceiling(p.peak, Key("gemm/dtype:int8/m:1/n:1/k:1"), "tflops", {1, 1}), std::nullopt)
      << "no peak, no ceiling";
  EXPECT_EQ(ceiling(p.peak, Key("hbm/op:copy/engine:sm/bytes:1"), "hbm_gb_per_s", {1, 1}), 4800);
  EXPECT_EQ(ceiling(p.peak, Key("hbm/op:copy/engine:sm/bytes:1"), "copy_gb_per_s", {1, 1}), 2400);
  EXPECT_EQ(ceiling(p.peak, Key("p2p/op:read/engine:ce/src:0/dst:1/bytes:1"), "copy_gb_per_s", {2, 1}), 450);
  EXPECT_EQ(ceiling(p.peak, Key("p2p/op:write/engine:ce/dir:both/src:0/dst:1/bytes:1"), "copy_gb_per_s", {2, 1}), 900);
  EXPECT_EQ(ceiling(p.peak, Key("allreduce/dtype:f32/bytes:1"), "busbw_gb_per_s", {8, 1}), 787.5);
  EXPECT_EQ(ceiling(p.peak, Key("allreduce/dtype:f32/bytes:1"), "algbw_gb_per_s", {8, 1}), 450);
  EXPECT_EQ(ceiling(p.peak, Key("allreduce/dtype:f32/bytes:1"), "busbw_gb_per_s", {1, 1}), std::nullopt);
  EXPECT_EQ(ceiling(p.peak, Key("allreduce/dtype:f32/bytes:1"), "busbw_gb_per_s", {16, 2}), std::nullopt)
      << "no fabric known";
  p.peak["nvlink_flits"] = 0.9375;
  EXPECT_NEAR(*ceiling(p.peak, Key("p2p/op:read/engine:sm/shift:1/bytes:1"), "copy_gb_per_s", {2, 1}), 375, 1e-9)
      << "next to a partner that reads nothing";
  p.peak["nics"] = 8, p.peak["nic_gbit"] = 400;
  EXPECT_EQ(ceiling(p.peak, Key("allreduce/dtype:f32/bytes:1"), "busbw_gb_per_s", {16, 2}), 750);
}

TEST(Metrics, HaveUnitsAndDirections) {
  EXPECT_EQ(unit_of("tflops"), "TFLOPS");
  EXPECT_EQ(unit_of("busbw_gb_per_s"), "GB/s");
  EXPECT_EQ(unit_of("p99_us"), "us");
  EXPECT_EQ(unit_of("tokens_per_s_total"), "tokens/s");
  EXPECT_EQ(unit_of("samples"), "");
  EXPECT_TRUE(lower_is_better("latency_us"));
  EXPECT_TRUE(lower_is_better("step_ms"));
  EXPECT_FALSE(lower_is_better("tokens_per_s"));
  EXPECT_EQ(number_text(793.25), "793.25");
  EXPECT_EQ(number_text(0.0005), "0.0005");
  EXPECT_EQ(number_text(30000000), "30000000");
}

}  // namespace
}  // namespace shakedown::profile_test
