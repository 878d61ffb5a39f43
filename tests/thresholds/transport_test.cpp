#include "thresholds/rules/transport.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown::transport_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;

/// Results have at least one row.
ResultsBuilder measured(int ranks, int hosts = 1) {
  ResultsBuilder builder(ranks, hosts);
  builder.add("hbm/x:1", "hbm_gb_per_s", 4000);
  return builder;
}

std::string rule(const std::string& bytes, const std::string& nvls, double reference, int ranks) {
  return "  - {benchmark: \"allreduce/dtype:f32/bytes:" + bytes +
         "\", metric: busbw_gb_per_s, every: run, ranks: " + std::to_string(ranks) + ", nvls: " + nvls +
         ", reference: " + std::to_string(reference) + ", margin: 0.07, source: s}\n";
}

const std::string both = rule("1073741824", "off", 360, 8) + rule("1073741824", "on", 463.6, 8) +
                         rule("8589934592", "off", 365.6, 8) + rule("8589934592", "on", 473.1, 8);

std::string note(const std::string& rules, const std::string& nvls, int ranks = 8, bool is_set = true) {
  auto builder = measured(ranks);
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

TEST(NoteOnNvls, IsInTheVerdictOnceIfAllReduceWasMeasured) {
  auto other = measured(8);
  other.context.nccl.nvls = "off";
  ResultsBuilder sums(8);
  sums.add("allreduce/dtype:f32/bytes:1073741824", "busbw_gb_per_s", 360).context.nccl.nvls = "off";
  const auto notes = [](const std::vector<Results>& files) {
    const auto all = judge(Measured(files), profile(both), {}).notes;
    return std::count_if(all.begin(), all.end(), [](const auto& note) { return note.starts_with("NVLS is off"); });
  };
  EXPECT_EQ(notes({other.results("a.json")}), 0);
  EXPECT_EQ(notes({other.results("a.json"), sums.results("b.json")}), 1);
}

TEST(NoteOnNvls, IsMissingIfNvlsIsOnOrTheCostIsUnknown) {
  EXPECT_EQ(note(both, "on", 8, false), "");
  EXPECT_EQ(note(both, "off", 4), "") << "the references are for 8 ranks";
  EXPECT_EQ(note(rule("8589934592", "off", 365.6, 8), "off"), "");
  EXPECT_EQ(note(rule("8589934592", "on", 473.1, 8), "off"), "");
  EXPECT_EQ(note(rule("8589934592", "off", 400, 8) + rule("8589934592", "on", 400, 8), "off"), "") << "no cost";
}

TEST(Transport, IsOneFindingOfAllFiles) {
  auto builder = measured(2);
  builder.context.nccl.transport = "P2P";
  Profile nvlink;
  nvlink.peak["nvlink_gb_per_s"] = 450;
  const Results unknown = measured(2).results(), good = builder.results();
  const auto passes = judge_transport({unknown, good, good}, nvlink);
  ASSERT_TRUE(passes);
  EXPECT_EQ(passes->key, "machine/nccl_transport");
  EXPECT_EQ(passes->code, Code::nccl_transport);
  EXPECT_EQ(passes->detail, "P2P");
  EXPECT_TRUE(passes->good());
  builder.context.nccl.transport = "SHM";
  for (const auto& files : {std::vector{good, builder.results("a.json")}, {builder.results("a.json"), good}}) {
    const auto fails = judge_transport(files, nvlink);
    ASSERT_TRUE(fails);
    EXPECT_EQ(fails->status, Status::fail);
    EXPECT_NE(fails->detail.find("NCCL uses SHM"), std::string::npos) << fails->detail;
    EXPECT_EQ(fails->detail.rfind("a.json: configuration: ", 0), 0u) << fails->detail;
    EXPECT_NE(fails->detail.find("no known setting of NCCL is the cause"), std::string::npos) << fails->detail;
    EXPECT_EQ(fails->detail.find("(rank"), std::string::npos) << "no link was recorded";
  }
}

/// The finding about a network of two hosts with two ranks each, whose NCCL used these links.
std::optional<Finding> network(const std::vector<NcclLink>& links, const ByRank& ports) {
  auto builder = measured(4, 2);
  builder.context.nccl.links = links;
  builder.add_facts("preflight/of:host", ports, {});
  return judge_network({builder.results()});
}

TEST(Network, NamesTheSocketsBetweenHostsAndCountsPortsThatAreUp) {
  const std::optional<double> none;
  const ByRank up{
      {"ib_ports", {4, none, 0, none}}, {"roce_ports", {2, none, 0, none}}, {"roce_ports_down", {1, none, 0, none}}};
  const std::vector<NcclLink> sockets{{0, 1, "NET/Socket/0"}, {1, 2, "NET/Socket/0"}};
  const auto finding = network(sockets, up);
  ASSERT_TRUE(finding);
  EXPECT_NE(finding->detail.find("1 host, node0 (5);"), std::string::npos) << finding->detail;
  EXPECT_NE(finding->detail.find("(rank 1 to 2 by NET/Socket/0)"), std::string::npos) << finding->detail;
  EXPECT_EQ(finding->code, Code::nccl_network);
  EXPECT_EQ(finding->offender_count, 1u);
  EXPECT_FALSE(network({{0, 1, "NET/Socket/0"}}, up)) << "inside a host";
  EXPECT_FALSE(network(sockets, {{"ib_ports", {1, none, 1, none}}, {"ib_ports_down", {1, none, 1, none}}}));
}

}  // namespace
}  // namespace shakedown::transport_test
