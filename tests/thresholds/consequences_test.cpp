// Tests which findings a culprit explains, and the order of findings and culprits.
#include "thresholds/culprits/consequences.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/findings/order.hpp"

namespace shakedown::consequences_test {
namespace {

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296";
const std::string sum = "allreduce/dtype:f32/bytes:1073741824";
const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";

Culprit gpu(int rank, const std::string& host = "node0") {
  Culprit place = host_culprit(host);
  place.rank = place.local_rank = rank;
  return place;
}

/// A figure that is `percent` below its limit on these GPUs.
Finding figure(const std::string& key, const std::string& metric, double percent, std::vector<Culprit> places,
               Severity severity = Severity::fail) {
  Finding finding;
  finding.key = Key(key);
  finding.metric = metric;
  finding.status = Status::fail;
  finding.severity = severity;
  finding.value = 100 - percent;
  finding.limit = Limit{LimitKind::min, 100};
  name_offenders(finding, std::move(places));
  return finding;
}

Diagnosis culprit_at(Cause cause, std::vector<Culprit> places, const std::vector<std::string>& keys, double percent) {
  Diagnosis d;
  d.causes = {cause};
  d.place_count = places.size();
  d.places = std::move(places);
  std::vector<Evidence> evidence;
  for (const auto& key : keys) {
    evidence.push_back({Key(key), "", Judgement::peers, std::nullopt, std::nullopt, percent, std::nullopt});
  }
  add_evidence(d, std::move(evidence));
  d.percent = percent;
  return d;
}

std::optional<std::size_t> cause_of(const Finding& finding, const std::vector<Diagnosis>& culprits) {
  return with_culprits({finding}, culprits).front().culprit;
}

const std::vector<Diagnosis> slow_memory{culprit_at(Cause::slow_gpu, {gpu(3)}, {hbm}, 5)};

TEST(ACulprit, ExplainsTheFailuresAndWarningsOfItsGpu) {
  EXPECT_EQ(cause_of(figure(hbm, "hbm_gb_per_s", 2, {gpu(3)}), slow_memory), 0u);
  EXPECT_EQ(cause_of(figure(hbm, "hbm_gb_per_s", 2, {gpu(3)}, Severity::warn), slow_memory), 0u);
  Finding doubt = figure(hbm, "hbm_gb_per_s", 2, {gpu(3)});
  doubt.status = Status::inconclusive;
  doubt.code = Code::in_doubt;
  EXPECT_EQ(cause_of(doubt, slow_memory), 0u);
}

TEST(ACulprit, ExplainsNothingOfAnotherGpuOrAnotherKindOfFigure) {
  EXPECT_FALSE(cause_of(figure(hbm, "hbm_gb_per_s", 2, {gpu(4)}), slow_memory));
  EXPECT_FALSE(cause_of(figure(hbm, "hbm_gb_per_s", 2, {gpu(3, "node1")}), slow_memory));
  EXPECT_FALSE(cause_of(figure(hbm, "hbm_gb_per_s", 2, {gpu(3), gpu(4)}), slow_memory)) << "GPU 4 has no culprit";
  EXPECT_FALSE(cause_of(figure(gemm, "tflops", 2, {gpu(3)}), slow_memory));
}

TEST(ACulprit, ExplainsNoFactErrorOrMissingValue) {
  for (const Code code : {Code::fact, Code::errors, Code::error, Code::wrong_data, Code::not_measured}) {
    Finding finding = figure(hbm, "hbm_gb_per_s", 2, {gpu(3)});
    finding.code = code;
    EXPECT_FALSE(cause_of(finding, slow_memory)) << name(code);
  }
  for (const Status status : {Status::pass, Status::missing, Status::invalid, Status::no_reference}) {
    Finding finding = figure(hbm, "hbm_gb_per_s", 2, {gpu(3)});
    finding.status = status;
    EXPECT_FALSE(cause_of(finding, slow_memory)) << name(status);
  }
}

TEST(ACulprit, ThatOnlyWarnsExplainsOnlyWarnings) {
  auto warning = slow_memory;
  warning.front().fails = false;
  EXPECT_FALSE(cause_of(figure(hbm, "hbm_gb_per_s", 2, {gpu(3)}), warning));
  EXPECT_EQ(cause_of(figure(hbm, "hbm_gb_per_s", 2, {gpu(3)}, Severity::warn), warning), 0u);
}

TEST(ACulprit, ExplainsCollectivesAndStepsThatWaitForIt) {
  EXPECT_EQ(cause_of(figure(sum, "busbw_gb_per_s", 9, {}), slow_memory), 0u);
  EXPECT_EQ(cause_of(figure(step, "tokens_per_s", 4, {gpu(0), gpu(1), gpu(2), gpu(3)}), slow_memory), 0u);
  EXPECT_FALSE(cause_of(figure(sum, "busbw_gb_per_s", 11, {}), slow_memory)) << "more than twice as slow as the GPU";
}

TEST(ACulprit, WithSlowPortsExplainsTheCopiesAtBothEnds) {
  const std::string copy = "p2p/op:read/engine:ce/";
  const std::vector slow{culprit_at(Cause::slow_link, {gpu(3)}, {copy + "shift:1/bytes:1073741824"}, 20)};
  EXPECT_EQ(cause_of(figure(copy + "src:3/dst:5/bytes:1073741824", "copy_gb_per_s", 20, {gpu(5)}), slow), 0u);
  EXPECT_EQ(cause_of(figure(copy + "shift:2/bytes:1073741824", "copy_gb_per_s", 20, {gpu(3), gpu(5)}), slow), 0u);
  EXPECT_FALSE(cause_of(figure(copy + "src:4/dst:5/bytes:1073741824", "copy_gb_per_s", 20, {gpu(5)}), slow));
}

TEST(ACulprit, ThatIsNoSinglePartExplainsOnlyItsEvidence) {
  const std::vector setting{culprit_at(Cause::configuration, {}, {sum}, 30)};
  EXPECT_EQ(cause_of(figure(sum, "busbw_gb_per_s", 30, {}), setting), 0u);
  EXPECT_FALSE(cause_of(figure(gemm, "tflops", 30, {gpu(3)}), setting));
}

TEST(ACulprit, WithWrongDataExplainsNoSlowFigure) {
  const std::vector wrong{culprit_at(Cause::wrong_data, {gpu(3)}, {gemm}, 0)};
  EXPECT_FALSE(cause_of(figure(gemm, "tflops", 5, {gpu(3)}), wrong));
}

TEST(Consequences, HaveTheirNumberAndTheWorst) {
  const auto findings =
      with_culprits({figure(hbm, "hbm_gb_per_s", 8, {gpu(3)}, Severity::warn), figure(hbm, "hbm_gb_per_s", 2, {gpu(3)}),
                     figure(sum, "busbw_gb_per_s", 4, {}), figure(gemm, "tflops", 9, {gpu(1)})},
                    slow_memory);
  const auto all = consequences_of(slow_memory, findings);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].findings, 3u);
  EXPECT_EQ(all[0].warnings, 1u);
  EXPECT_EQ(all[0].worst, &findings[2]) << "a failure is worse than a warning";
}

TEST(TheOrderOfFindings, IsFailuresFirstThenFactsThenTheWorst) {
  Finding fact;
  fact.key = Key("preflight/of:gpu");
  fact.status = Status::fail;
  const std::vector findings{figure(hbm, "a", 30, {gpu(1)}, Severity::warn), figure(hbm, "b", 2, {gpu(5)}),
                             figure(hbm, "c", 7.02, {gpu(4)}), figure(hbm, "d", 6.98, {gpu(2)}), fact};
  std::vector<const Finding*> sorted;
  for (const Finding& finding : findings) sorted.push_back(&finding);
  sort_worst_first(sorted);
  EXPECT_EQ(sorted[0]->key, fact.key);
  std::string order;
  for (const Finding* finding : sorted) order += finding->metric;
  EXPECT_EQ(order, "dcba") << "7.02 and 6.98 % are both shown as 7.0 %, and GPU 2 comes before GPU 4";
}

TEST(TheOrderOfCulprits, IsFailuresFirstThenTheWorstThenThePlace) {
  std::vector culprits{culprit_at(Cause::slow_silicon, {gpu(0)}, {}, 50),
                       culprit_at(Cause::busy_core, {gpu(1)}, {}, 40), culprit_at(Cause::slow_gpu, {gpu(5)}, {}, 10.01),
                       culprit_at(Cause::slow_gpu, {gpu(2)}, {}, 10), culprit_at(Cause::slow_gpu, {gpu(7)}, {}, 20)};
  culprits[0].fails = false;
  sort_worst_first(culprits);
  std::vector<int> ranks;
  for (const Diagnosis& d : culprits) ranks.push_back(d.places.front().rank.value());
  EXPECT_EQ(ranks, (std::vector{7, 2, 5, 1, 0}));
}

}  // namespace
}  // namespace shakedown::consequences_test
