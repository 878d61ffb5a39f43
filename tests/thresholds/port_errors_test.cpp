// Which errors of a port fail its host, and which are a warning.
#include "thresholds/rules/port_errors.hpp"

#include <gtest/gtest.h>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/nodes.hpp"

namespace shakedown::port_errors_test {
namespace {

using testing_support::ResultsBuilder;

using PortErrors = std::map<std::string, ErrorCounts>;

/// Four ranks on two hosts; the ports of the second one counted these errors in this time.
Results run(const PortErrors& errors, double seconds, const std::string& family = "gemm") {
  ResultsBuilder builder(4, 2);
  builder.add(family + "/row:0", "tflops", 700);
  builder.context.seconds = seconds;
  builder.context.inventory = {{"node0", 2, 2, {}, {}}, {"node1", 2, 2, {}, {}}};
  builder.context.inventory[1].port_errors = errors;
  return builder.results();
}

std::vector<Finding> judged(const ErrorCounts& errors, double seconds) {
  return judge_port_errors({run({{"mlx5_3/1", errors}}, seconds)}, {});
}

TEST(PortErrors, FailAHostWhoseLinkWentDown) {
  const auto findings = judged({{"link_downed", 1}}, 100);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].key, "machine/errors/host:node1");
  EXPECT_TRUE(findings[0].counts());
  EXPECT_EQ(findings[0].detail, "while this was measured (100 s): mlx5_3/1: 1 link downs");
  EXPECT_EQ(findings[0].part.kind, PartKind::nic);
  EXPECT_EQ(findings[0].part.id, "mlx5_3/1");
  EXPECT_EQ(findings[0].next, "ssh node1 perfquery -x -C mlx5_3");
  const auto verdict = judge({run({{"mlx5_3/1", {{"link_downed", 1}}}}, 100)}, std::vector<Profile>{}, {});
  const auto nodes = decide_nodes(verdict).nodes;
  EXPECT_EQ(nodes.at(0).state == NodeState::bad, false);
  EXPECT_EQ(nodes.at(1).state, NodeState::bad);
}

TEST(PortErrors, AreJudgedByTheirRate) {
  const auto severity = [](const std::string& counter, std::uint64_t count, double seconds) {
    const auto findings = judged({{counter, count}}, seconds);
    return findings.empty() ? "" : findings.at(0).counts() ? "fail" : "warn";
  };
  EXPECT_STREQ(severity("symbol_errors", 1200, 100), "fail") << "12 in a second";
  EXPECT_STREQ(severity("symbol_errors", 900, 100), "warn") << "9 in a second";
  EXPECT_STREQ(severity("symbol_errors", 20, 100), "warn");
  EXPECT_STREQ(severity("symbol_errors", 2, 30), "") << "120 in an hour are one in 30 s, and two may be chance";
  EXPECT_STREQ(severity("symbol_errors", 100, 3600), "");
  EXPECT_STREQ(severity("link_recoveries", 20, 60), "warn");
  EXPECT_STREQ(severity("link_recoveries", 4, 60), "");
  EXPECT_STREQ(severity("receive_errors", 2000, 100), "warn");
  EXPECT_STREQ(severity("receive_errors", 900, 100), "");
}

TEST(PortErrors, AreSummedOverFamilies) {
  const PortErrors errors{{"mlx5_0/1", {{"link_recoveries", 3}}}, {"mlx5_1/1", {{"link_recoveries", 30}}}};
  const std::vector<Results> files{run(errors, 60), run({}, 60, "hbm"), run(errors, 60, "p2p")};
  const auto findings = judge_port_errors(files, {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(findings[0].detail.ends_with(" (180 s): mlx5_1/1: 60 link recoveries"));
  EXPECT_TRUE(judge_port_errors(files, {{"hbm"}}).empty()) << "other families are judged";
}

TEST(PortErrors, OfTwoSeveritiesAreTwoFindings) {
  const auto findings = judged({{"link_downed", 1}, {"symbol_errors", 50}}, 100);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_TRUE(findings[0].counts());
  EXPECT_FALSE(findings[1].counts());
}

}  // namespace
}  // namespace shakedown::port_errors_test
