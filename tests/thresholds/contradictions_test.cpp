// Tests contradictory and impossible figures of one run: each check of the judge with a value on either side of its
// limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rules/leaked_memory.hpp"
#include "thresholds/rules/machine.hpp"
#include "thresholds/rules/validity.hpp"

namespace shakedown::contradictions_test {
namespace {

using testing_support::ResultsBuilder;

const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296";

/// The metric and the refusal of the only refused row; empty if there is none.
struct Refusal {
  std::string metric;
  Status status = Status::pass;
  std::optional<std::string> worst;
  bool operator==(const Refusal&) const = default;
};

Refusal refusal_of(const ResultsBuilder& builder, const Profile* profile = nullptr) {
  const std::vector<Results> results{builder.results()};
  const auto findings = judge_validity(benchmarks_of(results), profile, {});
  if (findings.empty()) return {};
  EXPECT_EQ(findings.size(), 1U);
  const auto& finding = findings.front();
  return {finding.metric, finding.status,
          finding.worst ? std::optional(finding.worst->host + "/" + std::to_string(finding.worst->rank.value_or(-1)))
                        : std::nullopt};
}

ResultsBuilder row(const std::map<std::string, double>& more) {
  return std::move(ResultsBuilder(1).add(hbm, "hbm_gb_per_s", 4000, {}, more));
}

TEST(Cv, ThatIsMissingWhereTheProfileLimitsItIsInconclusive) {
  const auto profiles = testing_support::profile(
      "  - {benchmark: \"" + hbm + "\", metric: hbm_gb_per_s, every: run, min: 40, source: s}\n",
      "repeatability: {samples_min: 1, cv_max: {hbm: 0.2}, source: s}\n");
  auto builder = row({{"samples", 4}});  // too few for a cv of each row
  EXPECT_EQ(refusal_of(builder, &profiles.front()), Refusal{});
  builder.rows.back().erase("cv");
  EXPECT_EQ(refusal_of(builder, &profiles.front()), (Refusal{"cv", Status::inconclusive, {}}));
  EXPECT_EQ(refusal_of(builder), Refusal{}) << "no profile, no limit";
}

TEST(Pairs, RepeatInOtherRoundsAndNeedNoSamples) {
  const auto profiles = testing_support::profile(
      "  - {benchmark: \"" + hbm + "\", metric: hbm_gb_per_s, every: run, min: 40, source: s}\n",
      "repeatability: {samples_min: 5, cv_max: {pairs: 0.2}, source: s}\n");
  ResultsBuilder builder(2, 2);
  builder.add("pairs/op:sendrecv/scope:across/round:0/bytes:8388608", "busbw_gb_per_s", 45).by_rank("partner", {1, 0});
  builder.rows.back().erase("samples");
  builder.rows.back().erase("cv");
  EXPECT_EQ(refusal_of(builder, &profiles.front()), Refusal{});
}

TEST(Times, OfNothingAreRefusedByName) {
  for (const auto* name : {"real_time", "iterations"}) {
    auto builder = row({});
    builder.rows.back()[name] = 0;
    EXPECT_EQ(refusal_of(builder), (Refusal{name, Status::invalid, {}})) << name;
  }
}

Finding run_id_of(const std::vector<Results>& files) {
  const auto findings = judge_machine(files, {});
  return *std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.key == "machine/run_id"; });
}

TEST(Files, OfOneRunThatBeganMoreThanADayApartAreRefused) {
  auto first = ResultsBuilder().add(hbm, "hbm_gb_per_s", 4000).results(), second = first;
  second.rows.front().key = Key("hbm/op:read/engine:sm/bytes:4294967296");
  second.context.started = "2026-11-21T23:00:00Z";
  EXPECT_EQ(run_id_of({first, second}).status, Status::pass) << "18 hours";
  second.context.started = "2025-10-21T05:00:00Z";
  EXPECT_EQ(run_id_of({first, second}).status, Status::invalid);
}

TEST(Files, ThatSayThatNvlsWasOnAgainstTheirSettingAreRefused) {
  auto results = ResultsBuilder().add(hbm, "hbm_gb_per_s", 4000).results();
  results.context.environment["NCCL_NVLS_ENABLE"] = "0";
  results.context.nccl.nvls = "off";
  EXPECT_EQ(run_id_of({results}).status, Status::pass);
  results.context.nccl.nvls = "on";
  EXPECT_EQ(run_id_of({results}).status, Status::invalid);
}

TEST(LoraStep, WhoseLossHardlyFallsIsInvalid) {
  const auto with = [](double last) {
    ResultsBuilder builder;
    builder.add("lora_step/model:qwen2_7b/batch:2/seq:4096", "tokens_per_s", 18000);
    builder.by_rank("first_loss", {12, 12, 12, 12}).by_rank("last_loss", {0.001, 0.001, last, 0.001});
    return refusal_of(builder);
  };
  EXPECT_EQ(with(0.001), Refusal{});
  EXPECT_EQ(with(11.9).metric, "last_loss");
}

TEST(Cv, ThatIsMissingWhereThereAreSamplesEnoughIsInconclusive) {
  auto builder = row({{"samples", 5}});
  EXPECT_EQ(refusal_of(builder), Refusal{});
  builder.rows.back().erase("cv");
  EXPECT_EQ(refusal_of(builder), (Refusal{"cv", Status::inconclusive, {}}));
}

TEST(Cv, IsAtMostTheRootOfTheNumberOfSamples) {
  EXPECT_EQ(refusal_of(row({{"samples", 100}, {"cv", 9.9}})), Refusal{});
  EXPECT_EQ(refusal_of(row({{"samples", 100}, {"cv", 10.1}})), (Refusal{"cv", Status::invalid, {}}));
  EXPECT_EQ(refusal_of(row({{"samples", 10}, {"cv", 3.1}})), Refusal{});
  EXPECT_EQ(refusal_of(row({{"samples", 10}, {"cv", 3.2}})), (Refusal{"cv", Status::invalid, {}}));
}

TEST(Figures, OfOneMeasurementAreTheSameWithinOnePercent) {
  const auto seconds = [](double factor) {
    auto builder = row({});
    const double took = builder.rows.back()["real_time"].get<double>() * 1e-3;
    builder.by_rank("seconds", {took * factor});
    return refusal_of(builder);
  };
  EXPECT_EQ(seconds(1), Refusal{});
  EXPECT_EQ(seconds(1.008), Refusal{});
  EXPECT_EQ(seconds(0.992), Refusal{});
  EXPECT_EQ(seconds(1.012), (Refusal{"hbm_gb_per_s", Status::invalid, "node0/0"}));
  EXPECT_EQ(seconds(0.988), (Refusal{"hbm_gb_per_s", Status::invalid, "node0/0"}));
}

TEST(Figures, OfTheRunAndOfItsSlowestRankAreTheSameWithinOnePercent) {
  const auto run = [](double rate) {
    ResultsBuilder builder(2);
    builder.add(hbm, "hbm_gb_per_s", rate, {4000, 4100});
    return refusal_of(builder);
  };
  EXPECT_EQ(run(4000), Refusal{});
  EXPECT_EQ(run(4030), Refusal{});
  EXPECT_EQ(run(4050), (Refusal{"hbm_gb_per_s", Status::invalid, {}}));
}

TEST(Figures, OfAMeanAreItsTimeWithinOnePercentAndItsCv) {
  const auto time = [](double factor, double cv) {
    auto builder = row({{"cv", cv}});
    builder.rows.back()["real_time"] = builder.rows.back()["real_time"].get<double>() * factor;
    return refusal_of(builder).metric;
  };
  EXPECT_EQ(time(1.005, 0.001), "");
  EXPECT_EQ(time(1.02, 0.001), "hbm_gb_per_s");
  EXPECT_EQ(time(1.02, 0.02), "") << "median and mean are within one standard deviation";
}

TEST(Quantiles, RiseAndStayWithinWhatMeanAndCvAllow) {
  const auto with = [](double p50, double p99, double most) {
    auto builder = row({{"samples", 100}, {"cv", 0.1}});
    const double mean_us = builder.rows.back()["real_time"].get<double>() * 1e3;
    builder.rows.back()["p50_us"] = p50 * mean_us;
    builder.rows.back()["p99_us"] = p99 * mean_us;
    builder.rows.back()["max_us"] = most * mean_us;
    return refusal_of(builder).metric;
  };
  EXPECT_EQ(with(1, 1.5, 1.9), "");
  EXPECT_EQ(with(1, 0.97, 1.9), "p99_us");
  EXPECT_EQ(with(1, 0.995, 1.9), "") << "rounding";
  EXPECT_EQ(with(1, 1.5, 2.1), "max_us") << "1 + 0.1 x root of 100";
}

TEST(Rows, OfMoreThanAWeekAreRefused) {
  const auto row_of = [](double seconds) {
    auto builder = row({});
    builder.rows.back()["iterations"] = 100;
    const double took = builder.rows.back()["real_time"].get<double>() * 1e-3;
    builder.rows.back()["iterations"] = std::floor(seconds / took / 10) * 10;
    return refusal_of(builder).metric;
  };
  constexpr double day = 86400;
  EXPECT_EQ(row_of(6.9 * day), "");
  EXPECT_EQ(row_of(7.1 * day), "samples");
  EXPECT_EQ(row_of(300 * day), "samples");
}

TEST(Checksums, OfDevicesOfOneKindAreTheSame) {
  const auto with = [](std::optional<double> last, const std::string& device = "NVIDIA H200") {
    ResultsBuilder builder(3);
    builder.context.ranks[2].device = device;
    const std::string key = "lora_step/model:tiny/dtype:bf16/seq:8";
    builder.add(key, "step_ms", 100).by_rank("checksum", {7, 7, last});
    const std::vector<Results> results{builder.results()};
    for (const auto& finding : judge_validity(benchmarks_of(results), nullptr, {})) {
      if (finding.metric == "checksum") return finding.worst ? finding.worst->rank.value_or(-1) : -1;
    }
    return -2;
  };
  constexpr int not_refused = -2;
  EXPECT_EQ(with(7), not_refused);
  EXPECT_EQ(with(8), 2) << "the rank that differs from the first";
  EXPECT_EQ(with(std::nullopt), not_refused);
  EXPECT_EQ(with(8, "NVIDIA B200"), not_refused);
}

TEST(Phases, OfAStepAddUpWithinTenPercent) {
  const auto with = [](double compute_ms, double exposed_ms, double forward_ms, const std::string& part = "") {
    ResultsBuilder builder(1);
    builder.add("train_step/model:tiny" + part + "/dtype:bf16/seq:8", "step_ms", 100);
    builder.by_rank("seconds", {0.1}).by_rank("compute_ms", {compute_ms}).by_rank("exposed_comm_ms", {exposed_ms});
    builder.by_rank("forward_ms", {forward_ms}).by_rank("backward_ms", {40}).by_rank("optimizer_ms", {10});
    const std::vector<Results> results{builder.results()};
    for (const auto& finding : judge_validity(benchmarks_of(results), nullptr, {})) {
      if (finding.metric == "compute_ms") return finding.detail;
    }
    return std::string();
  };
  const auto starts = [](const std::string& text, const char* start) { return text.rfind(start, 0) == 0; };
  EXPECT_EQ(with(90, 10, 40), "");
  EXPECT_EQ(with(90, 2, 40), "") << "8 % less";
  EXPECT_TRUE(starts(with(90, 25, 40), "together with the waiting time, does not give the step's 100 ms"));
  EXPECT_TRUE(starts(with(70, 10, 20), "together with the waiting time, does not give the step's 100 ms"));
  EXPECT_EQ(with(90, 10, 47), "") << "the phases are 7.8 % more";
  EXPECT_TRUE(starts(with(90, 10, 52), "contradicts its phases, 102 ms"));
  EXPECT_TRUE(starts(with(90, 10, 13), "contradicts its phases, 63 ms"));
  EXPECT_EQ(with(90, 10, 13, "/accumulation:4"), "") << "the phases of one pass of several";
}

TEST(Phases, OfAStepOfSeveralRanksAddUpWhereTheWaitIsKnown) {
  const auto is_refused = [](bool wait_is_known) {
    ResultsBuilder builder(2);
    builder.add("train_step/model:tiny/dtype:bf16/seq:8", "step_ms", 100);
    builder.by_rank("seconds", {0.1, 0.1}).by_rank("compute_ms", {60, 60});
    if (wait_is_known) builder.by_rank("exposed_comm_ms", {10, 10});
    const std::vector<Results> results{builder.results()};
    const auto findings = judge_validity(benchmarks_of(results), nullptr, {});
    return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.metric == "compute_ms"; });
  };
  EXPECT_TRUE(is_refused(true)) << "60 + 10 ms are no step of 100 ms";
  EXPECT_FALSE(is_refused(false)) << "it may have waited for 40 ms";
}

TEST(Partners, OfAMeasurementThatIsRepeatedForOneEndNeedNotSayEachOther) {
  const auto is_refused = [](const std::string& part, std::optional<double> said_by_other) {
    ResultsBuilder builder(2, 2);
    const std::string key = "pairs/op:send/bytes:67108864/shift:1" + part;
    builder.add(key, "busbw_gb_per_s", 40, {40, said_by_other ? testing_support::Values{40}.front() : std::nullopt});
    builder.by_rank("partner", {1, said_by_other});
    const std::vector<Results> results{builder.results()};
    const auto findings = judge_validity(benchmarks_of(results), nullptr, {});
    return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.metric == "partner"; });
  };
  EXPECT_FALSE(is_refused("", 0));
  EXPECT_TRUE(is_refused("", std::nullopt));
  EXPECT_FALSE(is_refused("/confirm:1", std::nullopt));
  EXPECT_TRUE(is_refused("/confirm:1", 1));
}

// --- files of one run ---

Finding machine(const std::vector<Results>& files, const std::string& key, const JudgeOptions& options = {}) {
  for (auto& finding : judge_machine(files, options)) {
    if (finding.key == key) return finding;
  }
  Finding none;
  none.key = Key("none");
  return none;
}

TEST(Files, OfDifferentHostsAreNoRun) {
  auto usual = ResultsBuilder(4, 2);
  usual.add(hbm, "hbm_gb_per_s", 4000);
  auto other = usual;
  for (auto& rank : other.context.ranks) {
    if (rank.host == "node1") rank.host = "node7";
  }
  const std::vector<Results> same{usual.results("a.json"), usual.results("b.json")};
  const std::vector<Results> different{usual.results("a.json"), other.results("b.json")};
  EXPECT_EQ(machine(same, "machine/hosts").status, Status::pass);
  const auto finding = machine(different, "machine/hosts");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.detail, "b.json and a.json come from different hosts");
  JudgeOptions mixed;
  mixed.mixed_runs = true;
  EXPECT_EQ(machine(different, "machine/hosts", mixed).status, Status::pass);
}

TEST(Gpus, WithoutAnIdentityAreMissed) {
  const auto with = [](bool uuid, bool pci) {
    ResultsBuilder builder(2);
    builder.add(hbm, "hbm_gb_per_s", 4000);
    if (!uuid) builder.context.ranks[1].uuid = std::nullopt;
    if (!pci) builder.context.ranks[1].pci = std::nullopt;
    return machine({builder.results()}, "machine/unique_devices");
  };
  EXPECT_EQ(with(true, false).status, Status::pass);
  EXPECT_EQ(with(false, true).status, Status::pass);
  const auto finding = with(false, false);
  EXPECT_EQ(finding.status, Status::missing);
  ASSERT_EQ(finding.offenders.size(), 1U);
  EXPECT_EQ(finding.offenders.front().rank, 1);
}

TEST(KeptMemory, WarnsAboveSixtyFourMebibytes) {
  const auto with = [](double mib) {
    auto builder = row({});
    builder.context.ranks.front().memory_kept_mib = mib;
    return judge_leaked_memory({builder.results()}, {});
  };
  EXPECT_TRUE(with(0).empty());
  EXPECT_TRUE(with(64).empty());
  ASSERT_EQ(with(65).size(), 1U);
  EXPECT_EQ(with(65).front().value, 65);
  EXPECT_EQ(with(65).front().severity, Severity::warn);
}

}  // namespace
}  // namespace shakedown::contradictions_test
