#include "thresholds/rules/transport.hpp"

#include <gtest/gtest.h>

#include "tests/thresholds/results_builder.hpp"

namespace shakedown::transport_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;

std::string rule(const std::string& bytes, const std::string& nvls, double reference, int ranks) {
  return "  - {benchmark: \"allreduce/dtype:f32/bytes:" + bytes +
         "\", metric: busbw_gb_per_s, every: run, ranks: " + std::to_string(ranks) + ", nvls: " + nvls +
         ", reference: " + std::to_string(reference) + ", margin: 0.07, source: s}\n";
}

const std::string both = rule("1073741824", "off", 360, 8) + rule("1073741824", "on", 463.6, 8) +
                         rule("8589934592", "off", 365.6, 8) + rule("8589934592", "on", 473.1, 8);

std::string note(const std::string& rules, const std::string& nvls, int ranks = 8, bool is_set = true) {
  ResultsBuilder builder(ranks, 1);
  builder.context.nccl.nvls = nvls;
  if (is_set) builder.context.environment["NCCL_NVLS_ENABLE"] = "0";
  return note_on_nvls(builder.results(), profile(rules).at(0)).value_or("");
}

TEST(NoteOnNvls, HasTheCostForTheLargestAllReduceAndTheSetting) {
  EXPECT_EQ(note(both, "off"),
            "NVLS is off (NCCL_NVLS_ENABLE=0): allreduce/dtype:f32/bytes:8589934592 reaches 365.6 instead of 473.1 "
            "GB/s, by the references of test");
  EXPECT_EQ(note(both, "off", 8, false).find("NVLS is off: allreduce"), 0u);
}

TEST(NoteOnNvls, IsMissingIfNvlsIsOnOrTheCostIsUnknown) {
  EXPECT_EQ(note(both, "on", 8, false), "");
  EXPECT_EQ(note(both, "off", 4), "") << "the references are for 8 ranks";
  EXPECT_EQ(note(rule("8589934592", "off", 365.6, 8), "off"), "");
}

}  // namespace
}  // namespace shakedown::transport_test
